/** Answers that were for other requests, as they come when one got lost and its connection lives on, and answers in the shapes of RESP 3. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import type { LockService } from '../../../lib/lock.service.js';
import { lockState, type RedisStore } from '../../../lib/stores/redis/redis-store.js';
import { byIoredis } from '../../../lib/stores/wire/ioredis.js';
import type { RedisTarget } from '../../../lib/stores/wire/redis-target.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy } from '../../support/flaky-proxy.js';
import { startCluster } from '../../support/redis-cluster.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, openLocks, openRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';

const server = forAll(startRedis);
const cluster = forAll(startCluster);
const proxy = forAll(() => startFlakyProxy(server.port));
afterEach(() => closeStores());

/** How many scripts the server has run. */
async function runsOfScripts(): Promise<number> {
  const stats = String(await server.command('INFO', 'commandstats'));
  return [...stats.matchAll(/cmdstat_(?:eval|evalsha):calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
}

/** What the server sent before it answered this has passed the proxy. */
async function oneTurn(): Promise<void> {
  await server.command('PING');
  await new Promise((resolve) => setImmediate(resolve));
}

type Question = (store: RedisStore, ask: AcquireRequest) => Promise<unknown>;
const inspects: Question = (store) => store.inspect('another lock');
const releases: Question = (store, ask) => store.release(ask);
const downgrades: Question = (store, ask) => store.downgrade(ask);

it.each([
  ['an inspection', inspects, releases],
  ['a downgrade', downgrades, inspects],
])('an answer that was for no such request as %s ends its connection, and the next request gets its own answer', async (_, misleads, follows) => {
  const store = await openRedisStore(proxy.url, 'p', { commandTimeoutMs: 60_000 });
  const ask = acquireRequest({ notAfter: performance.now() + 60_000 });
  expect(await store.acquire(ask)).toMatchObject({ kind: 'granted' });
  const { accepted } = proxy;
  const before = await runsOfScripts();
  proxy.dropReplies(true);
  const misled = misleads(store, ask).catch((error: unknown) => error);
  await eventually(async () => expect(await runsOfScripts()).toBe(before + 1));
  await oneTurn();
  proxy.dropReplies(false);
  // Its answer is taken for that to the question before.
  const unanswered = follows(store, ask).catch((error: unknown) => error);
  expect(await misled).toMatchObject({ code: 'LOCK_STORE', message: expect.stringContaining('no script of this library gives') });
  await eventually(() => expect(proxy.accepted).toBeGreaterThan(accepted));
  expect(await unanswered).toMatchObject({ code: 'LOCK_STORE' });
  await store.release(ask).catch(() => undefined);
  await eventually(async () => expect(await store.inspect(ask.key)).toMatchObject({ key: ask.key, mode: null, holders: [] }));
});

it.each([[['w', 1_795_365_974_385_499]], [['w', 1]], [['w', 'none']]])('an answer (%j) that tells of fewer holders than it counts is refused', (reply) => {
  expect(() => lockState('k', reply)).toThrow(/gave an answer that no script of this library gives/);
});

const shape = { protocol: 3, replyMapping: 'resp3' } as const;
const targets: readonly (readonly [string, () => RedisTarget])[] = [
  ['options', () => ({ host: '127.0.0.1', port: server.port, ...shape })],
  ['options of a Cluster', () => ({ cluster: cluster.startupNodes, options: { redisOptions: shape } })],
  ['a client', () => new Redis({ host: '127.0.0.1', port: server.port, lazyConnect: true, ...shape }) as unknown as RedisTarget],
  ['a Cluster client', () => new Cluster(cluster.startupNodes, { lazyConnect: true, redisOptions: shape })],
];

/** The private connections that are made like such a client get the usual replies. */
describe.each(targets)("ioredis' replyMapping resp3 in %s", (_, target) => {
  it('does not keep a process from booting, from getting a lock, and from being woken for the next', async () => {
    const open = (process: string): Promise<LockService> => openLocks('', process, { connection: byIoredis(target(), { Redis }) });
    const [a, b] = [await open('a'), await open('b')];
    const held = await a.acquire('k');
    const next = b.acquire('k');
    await new Promise((resolve) => setTimeout(resolve, 50));
    await held.release();
    expect((await next).fence).toBeGreaterThan(held.fence);
    await (await next).release();
  });
});
