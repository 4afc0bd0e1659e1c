/** A Cluster in which one master forgets what it granted: those who hold bring their leases back to whoever serves the slot then. */
import { describe, expect, it } from '@jest/globals';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { StoreEvent } from '../../../lib/core/port/lock-events.js';
import type { LockService } from '../../../lib/lock.service.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { eventually } from '../../support/eventually.js';
import { startCluster } from '../../support/redis-cluster.js';
import type { RedisServer } from '../../support/redis-server.js';
import { closeStores, openLocks as openLocksOn } from '../../support/redis-store.js';
import { forEachTest } from '../../support/started.js';
import { broughtBack, storeEvents } from '../../support/store-events.js';

const keys = new RedisKeys('lock');
const LOCKS = 30;
/** A failover takes some seconds, and a recovery follows it. */
const SERVED_WITHIN_MS = 20_000;

const cluster = forEachTest(() => startCluster({ masters: 3, replicasEach: 1 }), closeStores);

const openLocks = (process: string): Promise<LockService> => openLocksOn({ cluster: cluster.startupNodes }, process, { recoveryMs: 1_000 });

const slotOf = async (key: string): Promise<number> => cluster.slotOf(keys.lock(key));

interface Fault {
  readonly what: string;
  readonly reason: StoreEvent['reason'];
  /** Breaks something before the leases are granted that are to be forgotten. */
  readonly before?: (master: RedisServer) => Promise<void>;
  readonly forget: (master: RedisServer, slot: number) => Promise<void>;
}

const replicaOf = (master: RedisServer): RedisServer => cluster.replicas[cluster.masters.indexOf(master)]!;

const faults: readonly Fault[] = [
  { what: 'that was flushed', reason: 'flushed', forget: async (master) => void (await master.command('FLUSHALL')) },
  {
    what: 'that was killed and restarted empty',
    reason: 'restarted',
    forget: async (master) => {
      await master.kill();
      await master.restart({ keepData: false });
    },
  },
  {
    what: 'whose replica was promoted without the grants',
    reason: 'replaced',
    before: async (master) => {
      await replicaOf(master).pause();
      await master.command('CLIENT', 'KILL', 'TYPE', 'replica');
    },
    forget: async (master, slot) => {
      await master.kill();
      await replicaOf(master).resume();
      await eventually(async () => expect(await cluster.masterOf(slot)).toBe(replicaOf(master)), SERVED_WITHIN_MS);
    },
  },
  {
    what: 'that gave a slot to another master',
    reason: 'replaced',
    forget: async (master, slot) => {
      const target = cluster.masters.find((node) => node !== master)!;
      await cluster.beginMigration(slot, target);
      await cluster.finishMigration(slot, target);
    },
  },
];

describe.each(faults)('A master $what', ({ before, forget, reason }) => {
  it('and whoever serves its slots then grant nothing that is held, and later fences above those of before; who holds and who waits are told', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    const names = Array.from({ length: LOCKS }, (_, n) => `k${n}`);
    for (const name of names) await (await b.acquire(name)).release();
    const slot = await slotOf('k0');
    const master = await cluster.masterOf(slot);
    await before?.(master);
    const held: Lease[] = [];
    for (const name of names) held.push(await a.acquire(name));
    const others = names.map((name) => b.acquire(name));
    let granted = 0;
    for (const other of others) other.then(() => (granted += 1), () => undefined);
    const told = [a, b].map(storeEvents);
    await forget(master, slot);
    // The holder asks the server that has the slot now.
    for (const lease of held) await eventually(async () => expect([await lease.verify(), lease.signal.reason]).toEqual([true, undefined]), SERVED_WITHIN_MS);
    expect(granted).toBe(0);
    for (const events of told) await eventually(() => expect(events.at(-1)).toMatchObject({ type: 'storeRecovered' }), SERVED_WITHIN_MS);
    for (const events of told) expect(events[0]).toMatchObject({ type: 'storeForgot', reason, forMs: expect.any(Number) });
    expect(told.map(broughtBack)).toEqual([expect.any(Number), 0]);
    expect(broughtBack(told[0]!)).toBeGreaterThan(0);
    for (const lease of held) expect(await lease.release()).toBe('released');
    for (const [n, other] of others.entries()) expect((await other).fence).toBeGreaterThan(held[n]!.fence);
  });
});

describe('Slots that are moved while leases are held', () => {
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
});
