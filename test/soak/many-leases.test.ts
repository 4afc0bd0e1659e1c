/**
 * A process that holds very many leases when its server forgets: it keeps them all, also those that another process wants. This holds on
 * a machine with little else to do: the leases have to be back before the server opens (docs/maintainers/proof.md).
 */
import { afterAll, expect, it } from '@jest/globals';
import type { Lease } from '../../lib/core/port/lease.js';
import type { LockService } from '../../lib/lock.service.js';
import { eventually } from '../support/eventually.js';
import { startRedis } from '../support/redis-server.js';
import { closeStores, openLocks as openLocksOn } from '../support/redis-store.js';
import { forAll } from '../support/started.js';

const LEASES = 100_000;
const TAKEN_AT_ONCE = 200;
/** So many of them another process wants from the instant at which the server forgets. */
const WANTED = 200;
const RECOVERY_MS = 1_000;
const BACK_WITHIN_MS = 60_000;

afterAll(closeStores);
const redis = forAll(startRedis);

const openLocks = (process: string): Promise<LockService> => openLocksOn(redis.url, process, { recoveryMs: RECOVERY_MS, commandTimeoutMs: 10_000 }, { leaseMs: 60_000, waitMs: 0 });

async function takeAll(locks: LockService): Promise<Lease[]> {
  const held: Lease[] = [];
  let next = 0;
  const take = async (): Promise<void> => {
    while (next < LEASES) held.push(await locks.acquire(`k${next++}`, { waitMs: 10_000 }));
  };
  await Promise.all(Array.from({ length: TAKEN_AT_ONCE }, take));
  return held;
}

const locksThere = async (): Promise<number> => Number(/db0:keys=(\d+)/.exec((await redis.command('INFO', 'keyspace')) as string)?.[1] ?? 0);

it('100,000 leases are kept when their server forgets, and nobody else gets one meanwhile', async () => {
  const [holder, other] = [await openLocks('holder'), await openLocks('other')];
  const held = await takeAll(holder);
  let granted = 0;
  let recovering = true;
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
}, 240_000);
