/** Answers that were for other requests, as they come when one answer got lost on the way and its connection lives on. */
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { lockState } from '../../../lib/stores/wire/lock-reply.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy, type FlakyProxy } from '../../support/flaky-proxy.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';

let server: RedisServer;
let proxy: FlakyProxy;

beforeAll(async () => {
  server = await startRedis();
  proxy = await startFlakyProxy(server.port);
}, 60_000);
afterEach(() => closeStores());
afterAll(async () => {
  await proxy.stop();
  await server.stop();
});

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

it('an answer that was for no such request ends its connection, and the next request gets its own answer', async () => {
  const store = await openRedisStore(proxy.url, 'p', { commandTimeoutMs: 60_000 });
  const ask = acquireRequest({ notAfter: performance.now() + 60_000 });
  expect(await store.acquire(ask)).toMatchObject({ kind: 'granted' });
  const { accepted } = proxy;
  const before = await runsOfScripts();
  proxy.dropReplies(true);
  const misled = store.inspect('another lock').catch((error: unknown) => error);
  await eventually(async () => expect(await runsOfScripts()).toBe(before + 1));
  await oneTurn();
  proxy.dropReplies(false);
  // The answer to this release is taken for that to the inspection.
  const unanswered = store.release(ask).catch((error: unknown) => error);
  expect(await misled).toMatchObject({ code: 'LOCK_STORE', message: expect.stringContaining('no script of this library gives') });
  await eventually(() => expect(proxy.accepted).toBeGreaterThan(accepted), 5_000);
  expect(await unanswered).toMatchObject({ code: 'LOCK_STORE' });
  await eventually(async () => expect(await store.inspect(ask.key)).toMatchObject({ key: ask.key, mode: null, holders: [] }));
});

it.each([[['w', 1_795_365_974_385_499]], [['w', 1]], [['w', 'none']]])('an answer (%j) that tells of fewer holders than it counts is refused', (reply) => {
  expect(() => lockState('k', reply)).toThrow(/gave an answer that no script of this library gives/);
});
