/** Applications that share a server under prefixes of which one begins like the other. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { LockStore } from '../../../lib/core/port/lock-store.js';
import { startCluster } from '../../support/redis-cluster.js';
import { startMasters, startRedis } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { admitAll, closeRedlocks, openRedlock } from '../../support/redlock-store.js';

type Open = (prefix: string) => Promise<LockStore>;
interface Served {
  readonly open: Open;
  stop(): Promise<void>;
}

const PREFIXES = ['lock', 'lock:eu', 'lock:7', 'lock:7:7'];

async function oneRedis(): Promise<Served> {
  const server = await startRedis();
  return { open: (prefix) => openRedisStore(server.url, 'p', { prefix }), stop: () => server.stop() };
}

async function aCluster(): Promise<Served> {
  const cluster = await startCluster();
  return { open: (prefix) => openRedisStore({ cluster: cluster.startupNodes }, 'p', { prefix }), stop: () => cluster.stop() };
}

async function aRedlock(): Promise<Served> {
  const masters = await startMasters(3);
  const open: Open = async (prefix) => {
    await admitAll(masters, prefix);
    return openRedlock(masters, 'p', { prefix });
  };
  return { open, stop: async () => void (await Promise.all(masters.map((master) => master.stop()))) };
}

let stop: () => Promise<void> = () => Promise.resolve();
afterEach(async () => {
  await closeStores();
  await closeRedlocks();
  await stop();
});

let ids = 0;
async function hold(store: LockStore, key: string): Promise<void> {
  const usual = { mode: 'write', leaseMs: 30_000, queue: false, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;
  const outcome = await store.acquire({ key, id: `p.${++ids}`, ...usual, notAfter: systemClock.now() + 10_000 });
  expect(outcome.kind).toBe('granted');
}

async function listed(store: LockStore, startsWith?: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list({ startsWith })) keys.push(key);
  return keys.sort();
}

describe('the locks of a prefix', () => {
  it.each<[string, () => Promise<Served>]>([
    ['one Redis', oneRedis],
    ['a Cluster', aCluster],
    ['a Redlock', aRedlock],
  ])('on %s are listed without those of a prefix that begins with it', async (_name, serve) => {
    const { open, ...served } = await serve();
    stop = () => served.stop();
    for (const [position, prefix] of PREFIXES.entries()) {
      const store = await open(prefix);
      for (const key of ['shared', `own:${position}`]) await hold(store, key);
    }
    for (const [position, prefix] of PREFIXES.entries()) {
      const store = await open(prefix);
      expect(await listed(store)).toEqual([`own:${position}`, 'shared']);
      expect(await listed(store, 'sh')).toEqual(['shared']);
    }
  });
});
