/** A machine that sleeps, and a wall clock that is set, while a lease is held or asked for. */
import { describe, expect, it } from '@jest/globals';
import { LockLostError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import { MachineSleep } from '../../../lib/core/lease/machine-sleep.js';
import { FakeClock } from '../../support/fake-clock.js';
import { alone } from '../../support/locks.js';

describe('A hold', () => {
  it.each<[string, (lease: Lease) => unknown]>([
    ['is lost', (lease) => expect(() => lease.assertHeld()).toThrow(LockLostError)],
    ['says that nothing is left of it', (lease) => expect(lease.remainingMs).toBe(0)],
    ['S3: is told as lost by its release', async (lease) => expect(await lease.release()).toBe('lost')],
  ])('%s when the machine slept for longer than its lease', async (_, look) => {
    const { fleet, locks } = alone();
    const lease = await locks.acquire('k', { leaseMs: 5_000 });
    fleet.clock.sleepMachine(6_000);
    await look(lease);
  });

  it('is not begun on an answer that was asked for before the machine slept: the store is asked again', async () => {
    const { fleet, locks, wire } = alone();
    wire.slowMs = 100;
    const asked = locks.acquire('k', { leaseMs: 5_000 });
    await fleet.clock.advance(50);
    fleet.clock.sleepMachine(6_000);
    await fleet.clock.runUntil(asked);
    expect(wire.sent.acquire).toBe(2);
  });

  it('is not shared with a reader who comes after the machine slept for longer than the lease: the store is asked', async () => {
    const { fleet, locks, wire } = alone();
    await locks.acquire('k', { mode: 'read', leaseMs: 3_000 });
    fleet.clock.sleepMachine(10_000);
    const lease = await fleet.clock.runUntil(locks.acquire('k', { mode: 'read', leaseMs: 3_000 }));
    expect(wire.sent.acquire).toBe(2);
    lease.assertHeld();
  });

  it('is renewed once more when the machine slept while a renewal was on its way', async () => {
    const { fleet, locks, wire } = alone();
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

  it('L6: leaves no appointment behind when it was released because a sleep had ended another one', async () => {
    const { fleet, locks } = alone();
    const [short, long] = [await locks.acquire('short', { leaseMs: 5_000 }), await locks.acquire('long', { leaseMs: 60_000 })];
    let released: Promise<unknown> | undefined;
    short.signal.addEventListener('abort', () => (released = long.release()));
    fleet.clock.sleepMachine(6_000);
    expect(() => short.assertHeld()).toThrow(LockLostError);
    expect(await released).toBe('released');
    // The store of this fleet has a timer of its own until the short lease has ended there.
    await fleet.clock.advance(10_000);
    expect(fleet.clock.pendingTimers).toBe(0);
  });
});

describe('A sleep of the machine', () => {
  const now = 1_000;
  function setUp(): { clock: FakeClock; sleep: MachineSleep; told: string[] } {
    const clock = new FakeClock({ now });
    const told: string[] = [];
    const sleep = new MachineSleep(clock, (sleptMs) => void told.push(`slept ${sleptMs} at ${clock.now()}`));
    return { clock, sleep, told };
  }

  it('is noticed when it was longer than a second, with its length, once', async () => {
    const { clock, sleep, told } = setUp();
    clock.sleepMachine(1_000);
    sleep.look(now);
    expect(told).toEqual([]);
    clock.sleepMachine(1);
    sleep.look(now);
    sleep.look(now);
    expect(told).toEqual(['slept 1001 at 1000']);
    clock.sleepMachine(5_000);
    clock.stepWall(-5_000);
    await clock.advance(250);
    sleep.look(clock.now());
    expect(told.slice(1)).toEqual(['slept 5000 at 1250']);
  });

  it('is looked for in the file of the system every 250 ms at most, unless the wall clock has jumped', async () => {
    const { clock, sleep } = setUp();
    let looks = 0;
    const uptimeMs = clock.uptimeMs.bind(clock);
    clock.uptimeMs = () => ((looks += 1), uptimeMs());
    for (const pauseMs of [0, 249, 1]) {
      await clock.advance(pauseMs);
      sleep.look(clock.now());
    }
    expect(looks).toBe(2);
    clock.stepWall(-1_001);
    sleep.look(clock.now());
    expect(looks).toBe(3);
  });

  it('is told apart from a wall clock that was set, forward or back', () => {
    for (const byMs of [3_600_000, -3_600_000]) {
      const { clock, sleep, told } = setUp();
      clock.sleepMachine(500);
      clock.stepWall(byMs);
      sleep.look(now);
      expect(told).toEqual(['slept 0 at 1000']);
      expect(sleep.look(now)).toBe(-Infinity);
    }
  });

  it('makes worthless what is counted from before it was noticed, and nothing later', () => {
    const { clock, sleep } = setUp();
    expect(sleep.look(now)).toBe(-Infinity);
    clock.sleepMachine(2_000);
    expect(sleep.look(now)).toBe(1_000);
  });
});
