/** What locks cost a server: commands for each critical section, and memory, counted by the server itself. */
import { afterAll, describe, expect, it } from '@jest/globals';
import type { Wake } from '../../lib/core/port/lock-store.js';
import type { RedisStore } from '../../lib/stores/redis/redis-store.js';
import { eventually } from '../support/eventually.js';
import { startRedis } from '../support/redis-server.js';
import { closeStores, openRedisStore, PATIENT } from '../support/redis-store.js';
import { forAll } from '../support/started.js';

afterAll(() => closeStores());
const server = forAll(startRedis);

const usual = { mode: 'write', leaseMs: 30_000, queue: true, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;

/** Calls of scripts since the statistics were reset. */
async function scriptCalls(): Promise<number> {
  const stats = await server.client().info('commandstats');
  return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
}

/**
 * Each of so many waiters takes the lock once and passes it on by its release. Resolves with the number of commands
 * that keep places meanwhile, or take new ones, and are not counted.
 */
async function takeTurns(stores: readonly RedisStore[], waiters: number): Promise<number> {
  const key = `turns:${waiters}`;
  const acquire = (id: string, store: RedisStore) => store.acquire({ ...usual, key, id, notAfter: performance.now() + 60_000 });
  const waiting = new Map(Array.from({ length: waiters }, (_, i) => [`p${i % stores.length}.${waiters}x${i}`, stores[i % stores.length]!]));
  let questions = 0;
  let fail: (error: unknown) => void = () => undefined;
  const turn = (id: string): void => {
    const store = waiting.get(id);
    if (waiting.delete(id)) store!.release({ key, id }).catch(fail);
  };
  const ask = (id: string, store: RedisStore) => acquire(id, store).then(({ kind }) => kind === 'granted' && turn(id), fail);
  const keepPlaces = (store: RedisStore): void => {
    const ids = [...waiting.keys()].filter((id) => waiting.get(id) === store);
    questions += Math.ceil(ids.length / 8); // who has a place shares a command with seven others
    for (const id of ids) void ask(id, store);
  };
  for (const store of stores) {
    store.onWake((wake: Wake) => {
      if (wake.kind === 'granted') turn(wake.id);
      if (wake.kind === 'ask') void ask(wake.id, store);
    });
  }
  await acquire('p0.first', stores[0]!);
  await Promise.all([...waiting].map(([id, store]) => acquire(id, store)));
  const timer = setInterval(() => stores.forEach(keepPlaces), 700);
  try {
    await new Promise<void>((resolve, reject) => {
      fail = reject;
      stores[0]!.release({ key, id: 'p0.first' }).catch(fail);
      eventually(() => expect(waiting.size).toBe(0)).then(resolve, reject);
    });
    return questions;
  } finally {
    clearInterval(timer);
  }
}

describe('the cost of a lock', () => {
  it('is two commands for each critical section, with 1, 10, 100 and 1,000 waiters', async () => {
    const stores = await Promise.all([0, 1, 2, 3].map((n) => openRedisStore(server.url, `p${n}`, PATIENT)));
    for (const waiters of [1, 10, 100, 1_000]) {
      await server.command('CONFIG', 'RESETSTAT');
      const questions = await takeTurns(stores, waiters);
      expect(((await scriptCalls()) - questions) / (waiters + 1)).toBeLessThanOrEqual(2.1);
    }
  });

  it('is at most 220 bytes for a lock that is held, with a name of its own and a label', async () => {
    const store = await openRedisStore(server.url, '4f9c1c52aa01', PATIENT);
    const key = 'order:0000000042';
    await store.acquire({ ...usual, key, id: '4f9c1c52aa01.123456', label: 'OrderService.payByInvoice', notAfter: performance.now() + 60_000 });
    const [lockKey] = (await server.command('KEYS', '{lock:*}:l:*')) as string[];
    expect(await server.command('MEMORY', 'USAGE', lockKey as string)).toBeLessThanOrEqual(220);
    await store.release({ key, id: '4f9c1c52aa01.123456' });
  });

  it('is no key but a fence for each of 256 slot groups, however many keys were locked', async () => {
    const store = await openRedisStore(server.url, 'many', PATIENT);
    for (let round = 0; round < 10; round++) {
      await Promise.all(
        Array.from({ length: 500 }, async (_, i) => {
          const holder = { key: `many:${round}:${i}`, id: `many.${round}x${i}` };
          await store.acquire({ ...usual, ...holder, notAfter: performance.now() + 60_000 });
          await store.release(holder);
        }),
      );
    }
    const left = (await server.command('KEYS', '*')) as string[];
    expect(left.filter((name) => !/^\{lock:\d+\}:f$/.test(name))).toEqual(['{lock}:format']);
    expect(left.length).toBe(257);
  });
});
