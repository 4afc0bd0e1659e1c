import { describe, expect, it } from '@jest/globals';
import { LockTimeoutError, LockUsageError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { LockOptions } from '../../../lib/core/port/lock-options.js';
import { LockService } from '../../../lib/lock.service.js';
import { alone, Fleet, gate } from '../../support/locks.js';
import { StoreAround } from '../../support/store-around.js';

const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, index) => make(index));

describe('The callers of one process that want a permit', () => {
  it('are told once each that they wait, those for whom no request of their own is made too', async () => {
    const fleet = new Fleet();
    const other = fleet.process().locks;
    const { locks } = fleet.process();
    const held = await Promise.all(many(2, () => other.acquire('k', { permits: 2 })));
    const waiting: (number | undefined)[] = [];
    locks.events.subscribe(({ type, call }) => type === 'waiting' && waiting.push(call));
    const callers = many(5, () => locks.withLock('k', { permits: 2 }, async () => {}));
    await fleet.clock.settle();
    expect(waiting).toHaveLength(5);
    await fleet.clock.runUntil(Promise.all([...held.map((lease) => lease.release()), ...callers]));
    expect(new Set(waiting).size).toBe(5);
    expect(waiting).toHaveLength(5);
  });

  it('are let in one for each permit that another process gives back', async () => {
    const fleet = new Fleet();
    const other = fleet.process().locks;
    const { locks } = fleet.process();
    const [first, second] = [await other.acquire('k', { permits: 3 }), await other.acquire('k', { permits: 3 })];
    const inside: number[] = [];
    const work = gate();
    const callers = many(4, (n) => locks.withLock('k', { permits: 3 }, async () => {
      inside.push(n);
      await work.promise;
    }));
    await fleet.clock.settle();
    expect(inside).toEqual([0]);
    await fleet.clock.runUntil(first.release());
    await fleet.clock.settle();
    expect(inside).toEqual([0, 1]);
    await fleet.clock.runUntil(second.release());
    await fleet.clock.settle();
    expect(inside).toEqual([0, 1, 2]);
    work.open();
    await fleet.clock.runUntil(Promise.all(callers));
    expect(inside).toEqual([0, 1, 2, 3]);
    expect(fleet.store.size).toBe(0);
  });

  it('are served by another permit when one hangs', async () => {
    const { fleet, locks } = alone();
    const hangs = gate();
    const hung = locks.withLock('k', { permits: 2 }, () => hangs.promise);
    const order: number[] = [];
    const others = many(5, (n) => locks.withLock('k', { permits: 2 }, async () => void order.push(n)));
    await fleet.clock.runUntil(Promise.all(others));
    expect(order).toEqual([0, 1, 2, 3, 4]);
    hangs.open();
    await fleet.clock.runUntil(hung);
  });

  it('that give up leave the queue of the store, and the others keep their places', async () => {
    const fleet = new Fleet();
    const other = fleet.process().locks;
    const { locks } = fleet.process();
    const held = await other.acquire('k', { permits: 1 });
    const impatient = locks.acquire('k', { permits: 1, waitMs: 200 });
    const refused = expect(impatient).rejects.toThrow(LockTimeoutError);
    const patient = locks.acquire('k', { permits: 1 });
    await fleet.clock.advance(100);
    const later = fleet.process().locks.acquire('k', { permits: 1 });
    await fleet.clock.advance(200);
    await refused;
    expect((await fleet.store.inspect('k')).waiters).toHaveLength(2);
    await fleet.clock.runUntil(held.release());
    await fleet.clock.runUntil((await fleet.clock.runUntil(patient)).release());
    await fleet.clock.runUntil((await fleet.clock.runUntil(later)).release());
    expect(fleet.store.size).toBe(0);
  });

  it('take no more places in the queue of the store than callers of the process wait, once some have given up', async () => {
    const fleet = new Fleet();
    const other = fleet.process().locks;
    const { locks } = fleet.process();
    const held = [await other.acquire('k', { permits: 2 }), await other.acquire('k', { permits: 2 })];
    const refused = expect(locks.acquire('k', { permits: 2, waitMs: 200 })).rejects.toThrow(LockTimeoutError);
    const patient = locks.acquire('k', { permits: 2 });
    await fleet.clock.advance(100);
    expect((await fleet.store.inspect('k')).waiters).toHaveLength(2);
    await fleet.clock.advance(200);
    await refused;
    expect((await fleet.store.inspect('k')).waiters).toHaveLength(1);
    for (const lease of held) await fleet.clock.runUntil(lease.release());
    await fleet.clock.runUntil((await fleet.clock.runUntil(patient)).release());
    expect(fleet.store.size).toBe(0);
  });

  it('that do not wait get a free permit or are refused, at once', async () => {
    const { fleet, locks, wire } = alone();
    const leases = await fleet.clock.runUntil(Promise.all(many(10, () => locks.tryAcquire('k', { permits: 4 }))));
    const got = leases.filter((lease): lease is Lease => lease !== null);
    expect(got).toHaveLength(4);
    const sent = wire.sent.acquire;
    expect(await fleet.clock.runUntil(locks.tryAcquire('k', { permits: 4 }))).toBeNull();
    expect(wire.sent.acquire).toBe(sent);
    expect(await fleet.clock.runUntil(fleet.process().locks.tryAcquire('k', { permits: 4 }))).toBeNull();
    for (const lease of got) await fleet.clock.runUntil(lease.release());
    expect(fleet.store.size).toBe(0);
  });

  it('with different terms wait for one lock in the order in which the store heard of them', async () => {
    const { fleet, locks } = alone();
    const held = await locks.acquire('k', { permits: 1 });
    const order: string[] = [];
    const calls = [
      locks.withLock('k', { permits: 1, leaseMs: 5_000 }, async () => void order.push('short')),
      locks.withLock('k', { permits: 1, graceMs: 100 }, async () => void order.push('grace')),
      locks.withLock('k', { permits: 1, minHoldMs: 50 }, async () => void order.push('min')),
      locks.withLock('k', { permits: 1, renew: false }, async () => void order.push('fixed')),
    ];
    await fleet.clock.settle();
    await fleet.clock.runUntil(held.release());
    await fleet.clock.runUntil(Promise.all(calls));
    expect(order).toEqual(['short', 'grace', 'min', 'fixed']);
  });
});

describe('The number of permits', () => {
  const refusals: readonly LockOptions[] = [{ permits: 3 }, { permits: 4, waitMs: 0 }, {}, { mode: 'read' }, { owner: '2' }];

  it.each(refusals)('is the same for all who hold or wait: %p beside 2 rejects with both, from this process and another', async (how) => {
    const { fleet, locks } = alone();
    const lease = await locks.acquire('k', { permits: 2 });
    for (const who of [locks, fleet.process().locks]) {
      const refused = await fleet.clock.runUntil(who.acquire('k', how).catch((error: unknown) => error));
      expect(refused).toBeInstanceOf(LockUsageError);
      expect(String(refused)).toContain(how.permits === undefined ? 'names no permits' : `names ${how.permits} permits`);
      expect(String(refused)).toContain('name 2 permits');
    }
    await lease.release();
    const idle = await fleet.clock.runUntil(locks.acquire('k', how));
    await fleet.clock.runUntil(idle.release());
  });

  it('cannot be named for a lock that is held without', async () => {
    const { fleet, locks } = alone();
    for (const how of [{}, { mode: 'read' }, { owner: 'me' }] as const) {
      const lease = await locks.acquire('k', how);
      for (const who of [locks, fleet.process().locks]) {
        await expect(fleet.clock.runUntil(who.acquire('k', { permits: 1 }))).rejects.toThrow(/names 1 permit, but .* name no permits/);
      }
      await fleet.clock.runUntil(lease.release());
    }
  });

  it('is a whole number from 1 to 10,000, not for reading, an owner or several locks', async () => {
    const { locks } = new Fleet().process();
    const refused: readonly [LockOptions, RegExp][] = [
      [{ permits: 0 }, /permits to be a whole number from 1 to 10000, got 0/],
      [{ permits: 10_001 }, /from 1 to 10000, got 10001/],
      [{ permits: 1.5 }, /got 1\.5/],
      [{ permits: NaN }, /got NaN/],
      [{ permits: 2, mode: 'read' }, /permits do not go with mode 'read'/],
      [{ permits: 2, owner: 'me' }, /permits do not go with owner/],
    ];
    for (const [how, words] of refused) {
      await expect(locks.acquire('k', how)).rejects.toThrow(words);
      await expect(locks.tryAcquire('k', how)).rejects.toThrow(LockUsageError);
      await expect(locks.withLock('k', how, async () => {})).rejects.toThrow(LockUsageError);
    }
    await expect(locks.acquire(['a', 'b'], { permits: 2 })).rejects.toThrow(/permits \(2\) are those of one lock, and this call is for 2/);
    const one = await locks.acquire(['a', 'a'], { permits: 10_000 });
    await one.release();
  });
});

describe('A store that has no permits, such as a Redlock', () => {
  it('is not asked for one: the call is refused in words', async () => {
    const { store, clock } = new Fleet();
    const locks = new LockService({ store: new StoreAround(store, { permits: false }), process: 'p', clock });
    await expect(locks.acquire('k', { permits: 2 })).rejects.toThrow(/Lock 'k': permits \(2\) need one place that counts them, and a Redlock has none/);
    await expect(locks.tryAcquire('k', { permits: 2 })).rejects.toBeInstanceOf(LockUsageError);
    expect(store.size).toBe(0);
  });
});

describe('A call inside a hold with a permit', () => {
  it('re-enters the hold and takes no second permit', async () => {
    const { fleet, locks, wire } = alone();
    await fleet.clock.runUntil(
      locks.withLock('k', { permits: 2 }, async (outer) => {
        const before = wire.commands;
        await locks.withLock('k', { permits: 2 }, async (inner) => expect(inner.fence).toBe(outer.fence));
        expect(wire.commands).toBe(before);
        expect((await locks.inspect('k')).holders).toHaveLength(1);
        expect(locks.assertLocked('k').fence).toBe(outer.fence);
      }),
    );
  });

  it('that names another number, or none, is refused like one from outside', async () => {
    const { fleet, locks } = alone();
    await fleet.clock.runUntil(
      locks.withLock('k', { permits: 2 }, async () => {
        await expect(locks.withLock('k', { permits: 3 }, async () => {})).rejects.toThrow(/names 3 permits, but .* name 2 permits/);
        await expect(locks.withLock('k', async () => {})).rejects.toThrow(/names no permits/);
        await expect(locks.withLock('k', { mode: 'read' }, async () => {})).rejects.toThrow(LockUsageError);
      }),
    );
    await fleet.clock.runUntil(
      locks.withLock('k', () => expect(locks.withLock('k', { permits: 2 }, async () => {})).rejects.toThrow(/name no permits/)),
    );
  });
});
