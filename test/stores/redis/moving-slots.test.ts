/** Slots of a Cluster that are moved, while leases are held: to another master, and to one that had no slots. */
import { describe, expect, it } from '@jest/globals';
import type { LockService } from '../../../lib/lock.service.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { eventually } from '../../support/eventually.js';
import { startCluster } from '../../support/redis-cluster.js';
import { closeStores, openLocks as openLocksOn } from '../../support/redis-store.js';
import { forEachTest } from '../../support/started.js';

const keys = new RedisKeys('lock');
const LEASE_MS = 3_000;

const cluster = forEachTest(() => startCluster({ masters: 2, spares: 1 }), closeStores);

const openLocks = (process: string): Promise<LockService> => openLocksOn({ cluster: cluster.startupNodes }, process, { recoveryMs: 1_000 }, { leaseMs: LEASE_MS });

/** Keys of one slot group, whose Redis keys share a slot. */
function ofOneGroup(count: number): string[] {
  const group = keys.groupOf('order:0');
  return Array.from({ length: 10_000 }, (_, n) => `order:${n}`).filter((key) => keys.groupOf(key) === group).slice(0, count);
}

/** So many leases pass. */
async function pass(leases: number): Promise<void> {
  const until = performance.now() + leases * LEASE_MS;
  await eventually(() => expect(performance.now()).toBeGreaterThan(until));
}

describe('A slot that moves to a master without slots', () => {
  it('ends no process that renews a lease there, however long it stays half moved', async () => {
    const locks = await openLocks('p');
    const [one, other] = ofOneGroup(2) as [string, string];
    const held = [await locks.acquire(one), await locks.acquire(other)];
    const spot = keys.spotOf(one);
    const slot = await cluster.slotOf(spot.lockKey);
    const [spare] = cluster.spares;
    await cluster.beginMigration(slot, spare!);
    await cluster.migrate(slot, spare!, spot.lockKey);
    await pass(4);
    for (const lease of held) lease.assertHeld();
    await cluster.finishMigration(slot, spare!);
    for (const lease of held) expect(await lease.release()).toBe('released');
  });
});

describe('A slot that stays half moved', () => {
  it.each(['another master', 'a master without slots'])('between its master and %s costs no held lease when a process boots meanwhile, which makes the target begin a memory of its own', async (target) => {
    const locks = await openLocks('p');
    const [here, there] = ofOneGroup(2) as [string, string];
    const held = [await locks.acquire(here), await locks.acquire(there)];
    const spot = keys.spotOf(there);
    const slot = await cluster.slotOf(spot.lockKey);
    const from = await cluster.masterOf(slot);
    const to = target === 'another master' ? cluster.masters.find((node) => node !== from)! : cluster.spares[0]!;
    await cluster.beginMigration(slot, to);
    await cluster.migrate(slot, to, spot.fenceKey, spot.lockKey);
    await openLocks('q');
    await pass(3);
    for (const lease of held) lease.assertHeld();
    await cluster.finishMigration(slot, to);
    for (const lease of held) expect(await lease.verify()).toBe(true);
    for (const lease of held) expect(await lease.release()).toBe('released');
  });
});
