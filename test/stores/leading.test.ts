/** Leading on every store: what it costs, what it leaves behind, and that the next one leads. */
import { afterEach, describe, expect, it } from '@jest/globals';
import type { Lease } from '../../lib/index.js';
import type { LockStore } from '../../lib/core/port/lock-store.js';
import { systemClock } from '../../lib/core/port/clock.js';
import { LockService } from '../../lib/lock.service.js';
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';
import { eventually } from '../support/eventually.js';
import { within } from '../support/in-time.js';
import { startCluster } from '../support/redis-cluster.js';
import { startSentinel } from '../support/redis-sentinel.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { makeRedisStore } from '../support/redis-store.js';
import { makeRedlock, startVoters } from '../support/redlock-store.js';
import { forAll } from '../support/started.js';

const CANDIDATES = 10;
const MEASURED_MS = 5_000;
/** A candidate stands for days; it asks often in its first seconds only. */
const STOOD_MS = 8_000;

const redis = forAll(startRedis);
const cluster = forAll(startCluster);
const sentinel = forAll(startSentinel);
const masters = forAll(() => startVoters(3));
const opened: LockService[] = [];

afterEach(() => Promise.all(opened.splice(0).map((locks) => locks.close())));

async function open(store: LockStore, process: string): Promise<LockService> {
  const locks = new LockService({ store, process, leaseMs: 3_000 });
  opened.push(locks);
  await locks.open();
  return locks;
}

/** What clients asked for since the statistics were reset: everything they ask is a script, and what scripts do does not count. */
async function scriptsRun(server: RedisServer): Promise<number> {
  const stats = String(await server.command('INFO', 'commandstats'));
  return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
}

async function untilOver({ signal }: Lease): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
}

/** Two processes on one store each; the embedded store is one process, which stands twice. */
const stores: readonly (readonly [string, () => Promise<readonly [LockService, LockService]>])[] = [
  ['the embedded store', async () => {
    const locks = await open(new MemoryStore(systemClock), 'a');
    return [locks, locks];
  }],
  ['one Redis', () => both((name) => makeRedisStore(redis.url, name))],
  ['Sentinel', () => both((name) => makeRedisStore(sentinel.options, name))],
  ['a Cluster', () => both((name) => makeRedisStore({ cluster: cluster.startupNodes }, name))],
  ['a Redlock', () => both((name) => makeRedlock(masters.map(({ url }) => url), name))],
];

async function both(make: (process: string) => LockStore): Promise<readonly [LockService, LockService]> {
  return [await open(make('a'), 'a'), await open(make('b'), 'b')];
}

describe.each(stores)('On %s', (_name, openBoth) => {
  it('one process leads, the next one leads when it stops, when its term is taken away and when it shuts down, and nothing is left', async () => {
    const [a, b] = await openBoth();
    const fences: number[] = [];
    const lead = async (term: Lease): Promise<void> => {
      fences.push(term.fence);
      await untilOver(term);
    };
    const first = a.lead('indexer', lead);
    await eventually(() => expect(first.isLeader).toBe(true));
    const second = b.lead('indexer', lead);
    expect(await b.leader('indexer')).toMatchObject({ fence: first.term!.fence, remainingMs: expect.any(Number) });
    await first.stop();
    await eventually(() => expect(second.isLeader).toBe(true));
    const third = a.lead('indexer', lead);
    await eventually(async () => expect(await a.forceRelease('leader:indexer')).toBe(true));
    await eventually(() => expect(fences).toHaveLength(3));
    // A forced release is told by a message, beside which the next one leads already.
    await eventually(() => expect([second.isLeader, third.isLeader].filter(Boolean)).toHaveLength(1));
    await Promise.all([second.stop(), third.stop()]);
    expect(fences).toEqual([...fences].sort((one, other) => one - other));
    await eventually(async () => expect(await a.inspect('leader:indexer')).toMatchObject({ mode: null, holders: [], waiters: [] }));
    expect([...a.leaderships, ...b.leaderships]).toEqual([]);
  });
});

describe('On one Redis', () => {
  it('ten candidates cost the questions that keep their places and the renewals of the leader, and leave no key', async () => {
    const services = await Promise.all(Array.from({ length: CANDIDATES }, (_, n) => open(makeRedisStore(redis.url, `p${n}`), `p${n}`)));
    const leaderships = services.map((locks) => locks.lead('indexer', untilOver));
    await eventually(async () => expect((await services[0]!.inspect('leader:indexer')).waiters).toHaveLength(CANDIDATES - 1));
    await redis.command('CONFIG', 'RESETSTAT');
    await new Promise((resolve) => setTimeout(resolve, MEASURED_MS));
    const rate = (await scriptsRun(redis)) / (MEASURED_MS / 1_000);
    console.log(`ten candidates: ${rate} commands a second`);
    expect(rate).toBeLessThanOrEqual(40);
    await Promise.all(leaderships.map((each) => each.stop()));
    const keys = (await redis.command('KEYS', '*')) as string[];
    expect(keys.filter((key) => !/:(f|format)$/.test(key))).toEqual([]);
  });
});

describe('On a Redlock', () => {
  it('ten candidates that have stood for a while ask each node for no more than their marks need', async () => {
    const services = await Promise.all(Array.from({ length: CANDIDATES }, (_, n) => open(makeRedlock(masters.map(({ url }) => url), `p${n}`), `p${n}`)));
    const leaderships = services.map((locks) => locks.lead('indexer', untilOver));
    await new Promise((resolve) => setTimeout(resolve, STOOD_MS));
    expect(leaderships.filter(({ isLeader }) => isLeader)).toHaveLength(1);
    await Promise.all(masters.map((master) => master.command('CONFIG', 'RESETSTAT')));
    await new Promise((resolve) => setTimeout(resolve, MEASURED_MS));
    const rates = (await Promise.all(masters.map(scriptsRun))).map((count) => count / (MEASURED_MS / 1_000));
    console.log(`ten candidates on a Redlock: ${rates.join(', ')} commands a second and node`);
    for (const rate of rates) expect(rate).toBeLessThanOrEqual(40);
    await within(1_000, async () => {
      await leaderships.find(({ isLeader }) => isLeader)!.stop();
      await eventually(() => expect(leaderships.filter(({ isLeader }) => isLeader)).toHaveLength(1));
    });
    await Promise.all(leaderships.map((each) => each.stop()));
  });
});
