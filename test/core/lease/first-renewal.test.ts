/** The lease that a waiter is granted: short at first, so that waiters that died cost little, and whole almost at once for a process that lives. */
import { describe, expect, it } from '@jest/globals';
import type { LockDefaults } from '../../../lib/core/port/lock-options.js';
import { alone, Fleet } from '../../support/locks.js';

/** A hold that was granted to a waiter, and the wire of its process. */
async function granted(defaults: LockDefaults) {
  const fleet = new Fleet();
  const holder = await fleet.process().locks.acquire('k');
  const { locks, wire } = fleet.process(defaults);
  const waiting = locks.acquire('k');
  await fleet.clock.advance(100);
  await holder.release();
  return { fleet, wire, lease: await fleet.clock.runUntil(waiting) };
}

describe('A hold that came from the queue', () => {
  it.each([{ leaseMs: 30_000 }, { leaseMs: 5_000 }, { leaseMs: 3_000 }, { leaseMs: 10_000, maxHoldMs: 60_000 }])(
    'survives an outage that is shorter than its lease and begins 50 ms after the grant: $leaseMs ms',
    async (defaults) => {
      const { fleet, wire, lease } = await granted(defaults);
      await fleet.clock.advance(50);
      wire.cut = true;
      await fleet.clock.advance(defaults.leaseMs * 0.9);
      lease.assertHeld();
      wire.cut = false;
      await fleet.clock.advance(60_000 - 100 - defaults.leaseMs);
      lease.assertHeld();
      expect(await lease.release()).toBe('released');
    },
  );

  it('and ends within 25 ms is never renewed', async () => {
    const { fleet, wire, lease } = await granted({ leaseMs: 30_000 });
    await fleet.clock.advance(25);
    await lease.release();
    await fleet.clock.advance(1_000);
    expect(wire.sent.renew).toBe(0);
  });

  it('and goes on is renewed once, then after a third of its lease', async () => {
    const { fleet, wire } = await granted({ leaseMs: 30_000 });
    await fleet.clock.advance(9_900);
    expect(wire.sent.renew).toBe(1);
    await fleet.clock.advance(200);
    expect(wire.sent.renew).toBe(2);
  });

  it('is renewed together with the others that were granted at the same time', async () => {
    const fleet = new Fleet();
    const keys = Array.from({ length: 100 }, (_, n) => `k:${n}`);
    const { locks } = fleet.process();
    const held = await Promise.all(keys.map((key) => locks.acquire(key)));
    const { locks: others, wire } = fleet.process();
    const waiting = keys.map((key) => others.acquire(key));
    await fleet.clock.advance(100);
    await Promise.all(held.map((lease) => lease.release()));
    await fleet.clock.runUntil(Promise.all(waiting));
    await fleet.clock.advance(5_000);
    expect(wire.sent.renew).toBe(1);
  });

  it('of no more than its first lease is renewed after a third of it, as every other', async () => {
    const { fleet, wire } = await granted({ leaseMs: 1_500 });
    await fleet.clock.advance(300);
    expect(wire.sent.renew).toBe(0);
  });
});

describe('A hold that was granted directly', () => {
  it('is renewed after a third of its lease only, however short its maxHoldMs is', async () => {
    const { fleet, locks, wire } = alone({ leaseMs: 30_000 });
    await locks.acquire('k');
    const bounded = await locks.acquire('l', { maxHoldMs: 3_000 });
    await fleet.clock.advance(600);
    expect(wire.sent.renew).toBe(0);
    await bounded.release();
    await fleet.clock.advance(6_000);
    expect(wire.sent.renew).toBe(0);
  });
});
