/** One lock of a hold with the calls inside it: who gets in, when its lease is left, and what its end has to do with the holds around it. */
import { describe, expect, it } from '@jest/globals';
import { LockLostError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import { alone, Fleet, gate } from '../../support/locks.js';

/** Calls for `k` that outlive the hold in which they were made, each until its gate is opened, in these modes. */
async function outliving(fleet: Fleet, locks: ReturnType<Fleet['process']>['locks'], outer: 'read' | 'write', ...modes: readonly ('read' | 'write')[]) {
  const gates = modes.map(() => gate());
  const calls: Promise<void>[] = [];
  await locks.withLock('k', { mode: outer }, async () => {
    modes.forEach((mode, n) => calls.push(locks.withLock('k', { mode }, () => gates[n]!.promise)));
    await fleet.clock.settle();
  });
  return { gates, ended: Promise.all(calls) };
}

describe('A lock whose hold has ended while calls go on inside it', () => {
  it('stays taken until the last of them has ended', async () => {
    const { fleet, locks } = alone();
    const { gates: [one, two], ended } = await outliving(fleet, locks, 'write', 'read', 'read');
    one!.open();
    await fleet.clock.advance(10);
    expect(await fleet.process().locks.tryAcquire('k')).toBeNull();
    two!.open();
    await fleet.clock.runUntil(ended);
    await (await fleet.process().locks.acquire('k', { waitMs: 0 })).release();
  });

  it('is opened to readers with one command, however many of them go on', async () => {
    const { fleet, locks, wire } = alone();
    const { gates, ended } = await outliving(fleet, locks, 'write', 'read', 'read', 'read');
    for (const { open } of gates) {
      open();
      await fleet.clock.settle();
    }
    await fleet.clock.runUntil(ended);
    expect(wire.sent.downgrade).toBe(1);
  });

  it('is still bound to the maxHoldMs of its hold', async () => {
    const { fleet, locks } = alone();
    const goesOn = gate();
    let leftover!: Promise<unknown>;
    let inner: Lease | undefined;
    const outer = await locks.acquire('k', { leaseMs: 1_000, maxHoldMs: 3_000 });
    void outer.run(() => (leftover = locks.withLock('k', { onLost: 'ignore' }, (lease) => ((inner = lease), goesOn.promise))));
    await fleet.clock.settle();
    const released = outer.release();
    await fleet.clock.advance(2_900);
    outer.assertHeld();
    expect(outer.remainingMs).toBeGreaterThan(0);
    await fleet.clock.advance(200);
    expect([outer.signal.aborted, inner!.signal.aborted]).toEqual([true, true]);
    goesOn.open();
    await fleet.clock.runUntil(leftover);
    await released;
  });
});

describe('A call inside a hold that was lost', () => {
  it('is told at once, also while another call goes on inside', async () => {
    const { fleet, locks } = alone();
    const goesOn = gate();
    const work = locks.withLock('k', { maxHoldMs: 1_000, onLost: 'ignore' }, async () => {
      const sibling = locks.withLock('k', { onLost: 'ignore' }, () => goesOn.promise);
      await new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 1_100));
      const since = fleet.clock.now();
      await expect(locks.withLock('k', () => 'ran')).rejects.toBeInstanceOf(LockLostError);
      expect(fleet.clock.now()).toBe(since);
      goesOn.open();
      await sibling;
    });
    await fleet.clock.runUntil(work);
  });

  it('and whose turn comes only then leaves its place, so that the lock is given back at the end of the hold', async () => {
    const { fleet, locks, wire } = alone();
    const other = fleet.process().locks;
    const first = gate();
    await locks.withLock('k', { leaseMs: 1_000, graceMs: 30_000, onLost: 'ignore' }, async () => {
      const before = locks.withLock('k', { onLost: 'ignore' }, () => first.promise);
      const lost = expect(locks.withLock('k', () => 'ran')).rejects.toBeInstanceOf(LockLostError);
      await fleet.clock.settle();
      wire.cut = true;
      fleet.clock.block(1_000);
      first.open();
      await before;
      await lost;
      wire.cut = false;
    });
    await fleet.clock.advance(100);
    await (await other.acquire('k', { waitMs: 0 })).release();
  });
});

describe('A hold inside another one', () => {
  it('that is longer than its maxHoldMs is lost, and the hold around it goes on', async () => {
    const { fleet, locks } = alone();
    const outer = await locks.acquire('k');
    const inner = await outer.run(() => locks.acquire('k', { maxHoldMs: 1_000 }));
    await fleet.clock.advance(1_001);
    expect(inner.signal.aborted).toBe(true);
    outer.assertHeld();
    expect(await inner.release()).toBe('lost');
    expect(await outer.release()).toBe('released');
  });
});

describe('Readers on one lease', () => {
  it('of which the last one hangs keep the lock no longer than a lease behind its maxHoldMs, though another one might have held it for longer', async () => {
    const { fleet, locks } = alone();
    const terms = { mode: 'read', leaseMs: 1_000 } as const;
    const [first, hung] = [await locks.acquire('k', terms), await locks.acquire('k', { ...terms, maxHoldMs: 1_500 })];
    await fleet.clock.advance(100);
    await first.release();
    await fleet.clock.advance(2_500);
    await (await fleet.process().locks.acquire('k', { waitMs: 0 })).release();
    expect(hung.signal.aborted).toBe(true);
  });

  it('know exactly that their maxHoldMs is over, though no timer could run and the lease goes on for others', async () => {
    const { fleet, locks } = alone();
    const terms = { mode: 'read', leaseMs: 8_000 } as const;
    const short = await locks.acquire('k', { ...terms, maxHoldMs: 9_000 });
    const beside = await locks.acquire('k', terms);
    await fleet.clock.advance(8_900);
    short.assertHeld();
    fleet.clock.block(100);
    expect(() => short.assertHeld()).toThrow('it was held longer than maxHoldMs (9000 ms)');
    beside.assertHeld();
    await short.release();
    await beside.release();
  });
});
