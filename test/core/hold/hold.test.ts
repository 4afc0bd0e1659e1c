/** One hold from its grant to its end: what it is told when its lease is lost, and what its times mean. */
import { inspect } from 'node:util';
import { describe, expect, it, jest } from '@jest/globals';
import { ConsoleLogger } from '@nestjs/common';
import { defer, firstValueFrom, of } from 'rxjs';
import { LockLostError, LockUsageError } from '../../../lib/core/port/errors.js';
import { alone, Fleet } from '../../support/locks.js';

describe('A lease as JSON', () => {
  it('says which locks it holds, with which fences and for how long, and nothing of the library behind it', async () => {
    const { fleet, locks } = alone({ leaseMs: 9_000 });
    const lease = await locks.acquire(['a', 'b']);
    await fleet.clock.advance(1_000);
    expect(JSON.parse(JSON.stringify({ lease }))).toEqual({
      lease: {
        key: 'a', keys: ['a', 'b'], mode: 'write', fences: { a: lease.fences.get('a'), b: lease.fences.get('b') },
        holdCount: 1, heldMs: 1_000, remainingMs: 8_000,
      },
    });
    await lease.release();
  });

  it('is also what console.log and the logger of Nest write of it', async () => {
    const { locks } = alone();
    const lease = await locks.acquire('k');
    expect(inspect(lease)).toBe(inspect(lease.toJSON()));
    const write = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
    new ConsoleLogger({ colors: false }).log(lease);
    const [[written]] = write.mock.calls as [[string]];
    write.mockRestore();
    expect(written).toContain('holdCount: 1');
    expect(written.length).toBeLessThan(500);
  });
});

describe('A hold', () => {
  it('whose work gives an Observable, which would begin after the release, ends with an error that says so', async () => {
    const { fleet, locks } = alone();
    const begun = jest.fn();
    const lazy = defer(() => of(begun()));
    for (const work of [() => lazy, async () => lazy] as (() => unknown)[]) {
      const refused = expect(locks.withLock('k', work)).rejects.toMatchObject({ code: 'LOCK_USAGE', key: 'k', message: expect.stringContaining('await firstValueFrom(observable)') });
      await fleet.clock.runUntil(refused);
      expect(await locks.isLocked('k')).toBe(false);
    }
    expect(begun).not.toHaveBeenCalled();
    expect(await fleet.clock.runUntil(locks.withLock('k', () => firstValueFrom(of(7))))).toBe(7);
  });

  it('goes on for many leases while the watchdog renews it', async () => {
    const { fleet, locks } = alone();
    const held = locks.withLock('k', { leaseMs: 300 }, async (lease) => {
      await new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 1_500));
      expect(lease.signal.aborted).toBe(false);
      lease.assertHeld();
      expect(await lease.verify()).toBe(true);
    });
    await fleet.clock.runUntil(held);
  });

  it('is told that its lease is lost at the end of trust, though the store is silent', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { leaseMs: 1_000 });
    wire.cut = true;
    const since = fleet.clock.now();
    let abortedAfter = 0;
    lease.signal.addEventListener('abort', () => (abortedAfter = fleet.clock.now() - since));
    await fleet.clock.advance(2_000);
    expect(abortedAfter).toBeGreaterThan(0);
    expect(abortedAfter).toBeLessThanOrEqual(1_000);
    expect(lease.signal.reason).toBeInstanceOf(LockLostError);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(await lease.release()).toBe('lost');
  });

  it('knows exactly by assertHeld that its lease is over though no timer could run', async () => {
    const { fleet, locks } = alone();
    const lease = await locks.acquire('k', { leaseMs: 1_000 });
    fleet.clock.block(1_001);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(lease.signal.aborted).toBe(true);
    expect(await lease.release()).toBe('lost');
  });

  it('with a fixed lease ends with it', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { leaseMs: 500, renew: false });
    await fleet.clock.advance(400);
    await lease.renew(1_000);
    await fleet.clock.advance(900);
    lease.assertHeld();
    await fleet.clock.advance(200);
    expect(lease.signal.aborted).toBe(true);
    expect(wire.sent.renew).toBe(1);
  });

  it('longer than maxHoldMs is lost though it could be renewed, and the next one gets in', async () => {
    const { fleet, locks } = alone();
    const hung = await locks.acquire('k', { leaseMs: 1_000, maxHoldMs: 2_500 });
    const next = locks.acquire('k', { leaseMs: 1_000 });
    await fleet.clock.advance(2_400);
    hung.assertHeld();
    await fleet.clock.advance(101);
    expect(hung.signal.reason).toBeInstanceOf(LockLostError);
    expect(hung.signal.reason).toHaveProperty('message', expect.stringContaining('held longer than maxHoldMs'));
    const lease = await fleet.clock.runUntil(next);
    expect(lease.fence).toBeGreaterThan(hung.fence);
    expect(await hung.release()).toBe('lost');
    lease.assertHeld();
    await lease.release();
  });

  it('that ended in time is released, though maxHoldMs ends before the answer to its release', async () => {
    const { fleet, locks, wire } = alone();
    const work = locks.withLock('k', { maxHoldMs: 2_500 }, async () => {
      await new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 2_450));
      wire.slowMs = 200;
      return 'done';
    });
    await expect(fleet.clock.runUntil(work)).resolves.toBe('done');
    wire.slowMs = 0;
    const lease = await locks.acquire('k', { maxHoldMs: 1_000 });
    await fleet.clock.advance(900);
    wire.slowMs = 200;
    expect(await fleet.clock.runUntil(lease.release())).toBe('released');
    expect(lease.signal.aborted).toBe(false);
  });

  it('shorter than minHoldMs resolves at once and leaves the lock taken that long', async () => {
    const { fleet, locks } = alone();
    const since = fleet.clock.now();
    await locks.withLock('k', { minHoldMs: 2_000 }, async () => {});
    expect(fleet.clock.now()).toBe(since);
    expect(await locks.tryAcquire('k')).toBeNull();
    const lease = await fleet.clock.runUntil(locks.acquire('k'));
    expect(fleet.clock.now() - since).toBeGreaterThanOrEqual(2_000);
    await lease.release();
  });

  it('whose work ended after its lease was lost rejects with what the work came to', async () => {
    const { fleet, locks, wire } = alone();
    const late = (onLost: 'throw' | 'ignore', fail: boolean): Promise<string> =>
      locks.withLock('k', { leaseMs: 500, onLost, waitMs: 10_000 }, async () => {
        wire.cut = true;
        await new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 1_000));
        wire.cut = false;
        if (fail) throw new Error('disk full');
        return 'done';
      });
    await fleet.clock.runUntil(expect(late('throw', false)).rejects.toMatchObject({ code: 'LOCK_LOST', outcome: { status: 'fulfilled', value: 'done' } }));
    await fleet.clock.runUntil(expect(late('throw', true)).rejects.toMatchObject({ code: 'LOCK_LOST', outcome: { status: 'rejected' }, cause: { message: 'disk full' } }));
    await expect(fleet.clock.runUntil(late('ignore', false))).resolves.toBe('done');
    await fleet.clock.runUntil(expect(late('ignore', true)).rejects.toThrow('disk full'));
  });

  it('whose work ended because of the loss rejects with the loss alone', async () => {
    const { fleet, locks } = alone();
    const work = locks.withLock('k', { renew: false, leaseMs: 200 }, ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))));
    const error: unknown = await fleet.clock.runUntil(work.catch((reason: unknown) => reason));
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ outcome: undefined, message: expect.not.stringContaining('The work failed as well') });
  });

  it('is not taken away by a fence that is none', async () => {
    const { locks } = new Fleet().process();
    const lease = await locks.acquire('k');
    for (const fence of [NaN, 0, -1, 1.5, '7' as unknown as number]) await expect(locks.forceRelease('k', { fence })).rejects.toThrow(LockUsageError);
    expect(lease.signal.aborted).toBe(false);
    expect(await locks.forceRelease('k', { fence: lease.fence })).toBe(true);
  });

  it('that an operator ended is told', async () => {
    const { fleet, locks } = alone();
    const lease = await locks.acquire('k');
    const aborted = new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
    expect(await locks.forceRelease('k', { fence: lease.fence + 1 })).toBe(false);
    expect(await locks.forceRelease('k', { fence: lease.fence })).toBe(true);
    await fleet.clock.runUntil(aborted);
    expect(await lease.release()).toBe('lost');
  });

  it('of one owner is joined from other processes, with its fence and mode, each with a lease of its own', async () => {
    const fleet = new Fleet();
    const leases = await Promise.all([1, 2, 3].map(() => fleet.process().locks.acquire('k', { owner: 'saga-7' })));
    expect(new Set(leases.map(({ fence }) => fence)).size).toBe(1);
    const { locks } = fleet.process();
    expect(await locks.tryAcquire('k')).toBeNull();
    for (const lease of [leases[1]!, leases[0]!]) expect(await lease.release()).toBe('released');
    expect(await locks.tryAcquire('k')).toBeNull();
    expect(await leases[2]!.release()).toBe('released');
    expect(await locks.isLocked('k')).toBe(false);
    const reading = await locks.acquire('k', { owner: 'saga-8', mode: 'read' });
    await expect(fleet.process().locks.acquire('k', { owner: 'saga-8' })).rejects.toThrow(LockUsageError);
    await reading.release();
  });
});

describe('A lease', () => {
  it('is not held any more from the moment its release began', async () => {
    const { locks } = new Fleet().process();
    const lease = await locks.acquire('k');
    const releasing = lease.release();
    expect(() => lease.assertHeld()).toThrow(/released/);
    expect(() => lease.run(() => {})).toThrow(/released/);
    expect(lease.remainingMs).toBe(0);
    expect(await releasing).toBe('released');
  });
});
