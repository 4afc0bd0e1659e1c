import { describe, expect, it } from '@jest/globals';
import type { LockOptions } from '../../../lib/core/port/lock-options.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import { Fleet } from '../../support/locks.js';

/** Two locks, of which the second is free only after 3 s. */
async function holdsBothAfterWaiting(fleet: Fleet, options: LockOptions): Promise<Lease> {
  const other = await fleet.process().locks.acquire('b');
  const both = fleet.process().locks.acquire(['a', 'b'], options);
  await fleet.clock.advance(3_000);
  expect(await fleet.process().locks.tryAcquire('a')).toBeNull();
  await other.release();
  return fleet.clock.runUntil(both, 100);
}

async function expectFree(fleet: Fleet, ...keys: string[]): Promise<void> {
  const { locks } = fleet.process();
  for (const key of keys) expect(await locks.isLocked(key)).toBe(false);
}

describe('A hold of several locks', () => {
  it('counts maxHoldMs from the moment all of them are there', async () => {
    const fleet = new Fleet();
    const lease = await holdsBothAfterWaiting(fleet, { maxHoldMs: 1_000, leaseMs: 5_000 });
    await fleet.clock.advance(950);
    lease.assertHeld();
    await fleet.clock.advance(51);
    expect(lease.signal.aborted).toBe(true);
    await fleet.clock.advance(10);
    await expectFree(fleet, 'a', 'b');
  });

  it('that one of them refuses says how long it waited for all of them', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const other = fleet.process().locks;
    const [first] = [await other.acquire('a'), await other.acquire('b')];
    const refused = expect(locks.acquire(['a', 'b'], { waitMs: 500 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT', key: 'b', waitMs: 500, message: expect.stringContaining('after 500 ms') });
    const since = fleet.clock.now();
    await fleet.clock.advance(300);
    await first.release();
    await fleet.clock.runUntil(refused);
    expect(fleet.clock.now() - since).toBe(500);
  });

  it('with fixed leases has all of their time from the moment all of them are there, and no more', async () => {
    const fleet = new Fleet();
    const lease = await holdsBothAfterWaiting(fleet, { renew: false, leaseMs: 1_000 });
    expect(lease.remainingMs).toBeGreaterThan(990);
    await fleet.clock.advance(950);
    lease.assertHeld();
    await fleet.clock.advance(60);
    expect(lease.signal.aborted).toBe(true);
    await expectFree(fleet, 'a', 'b');
  });

  it('with fixed leases and maxHoldMs ends with the earlier of the two', async () => {
    const fleet = new Fleet();
    const lease = await holdsBothAfterWaiting(fleet, { renew: false, leaseMs: 5_000, maxHoldMs: 700 });
    expect(lease.remainingMs).toBeGreaterThan(690);
    expect(lease.remainingMs).toBeLessThanOrEqual(700);
    await fleet.clock.advance(710);
    await expectFree(fleet, 'a', 'b');
  });

  it('is not handed on with a fixed lease, and leaves the terms of the hold around it alone', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const outer = await locks.acquire('a', { leaseMs: 2_000 });
    const inner = await outer.run(() => locks.acquire(['a', 'b'], { renew: false, leaseMs: 2_000, maxHoldMs: 1_000 }));
    const next = locks.acquire('b', { renew: false, leaseMs: 2_000 });
    await inner.release();
    expect((await fleet.clock.runUntil(next)).remainingMs).toBe(2_000);
    await fleet.clock.advance(5_000);
    outer.assertHeld();
    expect(await outer.release()).toBe('released');
  });

  it('for reading ends for a caller with maxHoldMs, and goes on for the readers beside it', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const short = await locks.acquire(['a', 'b'], { mode: 'read', leaseMs: 1_000, maxHoldMs: 1_500 });
    const beside = await locks.acquire('a', { mode: 'read', leaseMs: 1_000 });
    await fleet.clock.advance(4_000);
    expect(short.signal.aborted).toBe(true);
    beside.assertHeld();
    expect(await beside.release()).toBe('released');
    await expectFree(fleet, 'b');
  });

  it('begins within half a second though the store does not answer any more', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    wire.renew = () => new Promise<never>(() => {});
    const lease = await fleet.clock.runUntil(locks.acquire(['a', 'b'], { renew: false, leaseMs: 5_000 }), 501);
    expect(lease.remainingMs).toBeGreaterThan(4_000);
    expect(await lease.release()).toBe('released');
  });

  it('tells the fence of a key by the name that the caller gave it', async () => {
    const { locks } = new Fleet().process();
    const lease = await locks.acquire(['stock:{7}', 'stock:8']);
    expect(lease.fences.get('stock:{7}')).toBeGreaterThan(0);
    expect([...lease.fences.keys()]).toEqual(lease.keys);
    for (const key of lease.keys) expect(lease.fences.has(key)).toBe(true);
    expect(lease.fences.get('stock:9')).toBeUndefined();
    await lease.release();
  });

  it('of which an owner had one for writing is a hold of the others for reading', async () => {
    const fleet = new Fleet();
    const first = await fleet.process().locks.acquire('a', { owner: 'saga-7' });
    const { locks } = fleet.process();
    const both = await locks.acquire(['a', 'b'], { owner: 'saga-7', mode: 'read' });
    const besideIt = await fleet.process().locks.tryAcquire('b', { mode: 'read' });
    expect(besideIt).not.toBeNull();
    expect(both.mode).toBe('read');
    both.run(() => {
      expect(locks.assertLocked('a')).toBe(both);
      expect(locks.assertLocked('b', 'read')).toBe(both);
      expect(() => locks.assertLocked('b')).toThrow('it holds it for reading only');
    });
    for (const lease of [besideIt, both, first]) expect(await lease!.release()).toBe('released');
  });
});
