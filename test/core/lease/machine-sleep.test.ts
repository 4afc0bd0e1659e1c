/** A machine that sleeps, and a wall clock that is set, while a lease is held or asked for. */
import { describe, expect, it } from '@jest/globals';
import { LockLostError } from '../../../lib/core/port/errors.js';
import { Fleet } from '../../support/locks.js';

describe('A hold', () => {
  it('is lost when the machine slept for longer than its lease', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const lease = await locks.acquire('k', { leaseMs: 5_000 });
    fleet.clock.sleepMachine(6_000);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
  });

  it('says that nothing is left of it when the machine slept for longer than its lease', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const lease = await locks.acquire('k', { leaseMs: 5_000 });
    fleet.clock.sleepMachine(6_000);
    expect(lease.remainingMs).toBe(0);
  });

  it('is not begun on an answer that was asked for before the machine slept: the store is asked again', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    wire.slowMs = 100;
    const asked = locks.acquire('k', { leaseMs: 5_000 });
    await fleet.clock.advance(50);
    fleet.clock.sleepMachine(6_000);
    await fleet.clock.runUntil(asked);
    expect(wire.sent.acquire).toBe(2);
  });

  it('is not begun on a message that is counted from before the machine slept: the store is asked', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const other = await fleet.process().locks.acquire('k');
    const asked = locks.acquire('k');
    await fleet.clock.settle();
    fleet.clock.sleepMachine(6_000);
    await other.release();
    await fleet.clock.runUntil(asked);
    expect(wire.sent.acquire).toBe(2);
  });

  it('is renewed once more when the machine slept while a renewal was on its way', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const lease = await locks.acquire('k', { leaseMs: 6_000 });
    wire.slowMs = 100;
    while (wire.sent.renew === 0) await fleet.clock.advance(10);
    fleet.clock.sleepMachine(2_000);
    await fleet.clock.advance(100);
    expect(lease.remainingMs).toBeLessThan(4_100);
    await fleet.clock.advance(100);
    expect(wire.sent.renew).toBe(2);
    expect(lease.remainingMs).toBeGreaterThan(5_500);
  });

  it('is renewed at once when the wall clock jumps, and not lost', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const lease = await locks.acquire('k', { leaseMs: 3_000 });
    await fleet.clock.advance(100);
    fleet.clock.stepWall(3_600_000);
    await fleet.clock.advance(1_000);
    lease.assertHeld();
    expect(wire.sent.renew).toBeGreaterThanOrEqual(1);
    expect(await lease.release()).toBe('released');
  });
});
