/** A process that holds very many leases when its server forgets: what it keeps, and how long it stops anybody. */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import type { Lease } from '../../lib/core/port/lease.js';
import { LockService } from '../../lib/lock.service.js';
import { eventually } from '../support/eventually.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { closeStores, makeRedisStore } from '../support/redis-store.js';

const LEASES = 100_000;
const TAKEN_AT_ONCE = 200;
/** So many of them another process wants from the instant at which the server forgets. */
const WANTED = 200;
/** As 'lease' has it: with a second or two a machine with a load above twenty lets others in before all are brought back. */
const RECOVERY_MS = 60_000;
const BUSY_MS = 5;
const BACK_WITHIN_MS = 60_000;

let redis: RedisServer;
const services: LockService[] = [];
beforeAll(async () => {
  redis = await startRedis();
}, 60_000);
afterAll(async () => {
  await Promise.all(services.map((locks) => locks.close()));
  await closeStores();
  await redis.stop();
});

async function openLocks(process: string): Promise<LockService> {
  const store = makeRedisStore(redis.url, process, { recoveryMs: RECOVERY_MS, commandTimeoutMs: 10_000 });
  const locks = new LockService({ store, process, leaseMs: 60_000, waitMs: 0, shutdownGraceMs: 0 });
  services.push(locks);
  await locks.open();
  return locks;
}

async function takeAll(locks: LockService): Promise<Lease[]> {
  const held: Lease[] = [];
  let next = 0;
  const take = async (): Promise<void> => {
    while (next < LEASES) held.push(await locks.acquire(`k${next++}`, { waitMs: 10_000 }));
  };
  await Promise.all(Array.from({ length: TAKEN_AT_ONCE }, take));
  return held;
}

/** How long the thread of the server has run so far, in ms: time in which the machine had other work to do does not count. */
function serverRanMs(): number {
  return Number(readFileSync(`/proc/${redis.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
}

async function locksThere(): Promise<number> {
  return Number(/db0:keys=(\d+)/.exec((await redis.command('INFO', 'keyspace')) as string)?.[1] ?? 0);
}

async function scriptCalls(): Promise<number> {
  const stats = (await redis.command('INFO', 'commandstats')) as string;
  return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
}

it('100,000 leases are kept when their server forgets, nobody else gets one meanwhile, and no command keeps the server from others for long', async () => {
  const [holder, other] = [await openLocks('holder'), await openLocks('other')];
  const held = await takeAll(holder);
  let granted = 0;
  let recovering = true;
  const [ranBefore, callsBefore] = [serverRanMs(), await scriptCalls()];
  await redis.command('FLUSHALL');
  const wanting = Promise.all(
    Array.from({ length: WANTED }, async (_, n) => {
      for (const key = `k${n * (LEASES / WANTED)}`; recovering; await new Promise((resolve) => setTimeout(resolve, 50))) {
        const lease = await other.tryAcquire(key).catch(() => null);
        if (lease !== null) granted += 1;
      }
    }),
  );
  await eventually(async () => expect(await locksThere()).toBeGreaterThan(LEASES), BACK_WITHIN_MS);
  recovering = false;
  await wanting;
  expect(granted).toBe(0);
  expect(held.filter(({ signal }) => signal.aborted)).toEqual([]);
  expect((serverRanMs() - ranBefore) / ((await scriptCalls()) - callsBefore)).toBeLessThan(BUSY_MS);
}, 240_000);
