/** How a hold ends: what its release resolves to, what it tells of itself meanwhile and after, and what it asks of the store. */
import { describe, expect, it } from '@jest/globals';
import { LockLostError, LockStoreError } from '../../../lib/core/port/errors.js';
import type { LockEvent } from '../../../lib/core/port/lock-events.js';
import { resolveDefaults } from '../../../lib/core/port/options.js';
import { delay } from '../../../lib/core/port/clock.js';
import { alone, gate } from '../../support/locks.js';

const { commandTimeoutMs } = resolveDefaults();

function setUp() {
  const { fleet, locks, wire } = alone();
  const told: LockEvent[] = [];
  locks.events.subscribe((event) => told.push(event));
  return { fleet, clock: fleet.clock, locks, wire, told, other: fleet.process().locks };
}

/** Lets every release reach the store only after a while. */
function delayReleases({ clock, wire }: ReturnType<typeof setUp>, ms: number): void {
  const release = wire.release.bind(wire);
  wire.release = async (request) => (await delay(clock, ms), release(request));
}

describe('The release of a hold', () => {
  it('that is asked for twice at once is one release, of which both hear', async () => {
    const on = setUp();
    const lease = await on.locks.acquire('k');
    delayReleases(on, 50);
    const both = Promise.all([lease.release(), lease.release(), lease.release()]);
    expect(await on.clock.runUntil(both)).toEqual(['released', 'released', 'released']);
    expect(on.wire.sent.release).toBe(1);
  });

  it('by the end of its scope is over when the lock is free', async () => {
    const on = setUp();
    const lease = await on.locks.acquire('k');
    delayReleases(on, 50);
    await on.clock.runUntil(lease[Symbol.asyncDispose]());
    expect(await on.other.isLocked('k')).toBe(false);
  });

  it.each([
    ['lost', 'released', 'lost'], ['released', 'lost', 'lost'], ['unknown', 'released', 'unknown'], ['released', 'unknown', 'unknown'],
    ['unknown', 'lost', 'lost'], ['lost', 'unknown', 'lost'], ['released', 'released', 'released'],
  ] as const)('of two locks that were %s and %s is %s', async (first, second, outcome) => {
    const { locks, wire } = setUp();
    const lease = await locks.acquire(['a', 'b']);
    wire.release = async ({ key }) => {
      const answer = key === 'a' ? first : second;
      if (answer === 'unknown') throw new LockStoreError('no answer');
      return answer;
    };
    expect(await lease.release()).toBe(outcome);
  });

  it('waits for calls inside the hold, and no longer than one request may take', async () => {
    const { clock, locks } = setUp();
    const goesOn = gate();
    const lease = await locks.acquire('k');
    const inside = lease.run(() => locks.withLock('k', () => goesOn.promise));
    await clock.settle();
    const since = clock.now();
    expect(await clock.runUntil(lease.release())).toBe('unknown');
    expect(clock.now() - since).toBe(commandTimeoutMs);
    goesOn.open();
    await inside;
  });
});

describe('A hold', () => {
  it('is over at the very end of its maxHoldMs, whatever is left of the lease', async () => {
    const { clock, locks } = setUp();
    const lease = await locks.acquire('k', { mode: 'read', leaseMs: 1_000, maxHoldMs: 1_000 });
    const beside = await locks.acquire('k', { mode: 'read', leaseMs: 1_000 });
    await clock.advance(999);
    lease.assertHeld();
    clock.block(1);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    await lease.release();
    await beside.release();
  });

  it('of several locks is announced as nested only when it has no lease of its own', async () => {
    const { locks, told } = setUp();
    await locks.withLock(['a', 'b'], () => locks.withLock(['a', 'b'], () => locks.withLock(['b', 'c'], () => {})));
    const nested = told.flatMap((event) => (event.type === 'granted' ? [event.nested] : []));
    expect(nested).toEqual([false, true, false]);
  });

  it('of which only the release found out that it was lost rejects, with what the work came to', async () => {
    const { locks, wire } = setUp();
    const release = wire.release.bind(wire);
    wire.release = async (request) => (await release(request), 'lost');
    await expect(locks.withLock('k', () => 'done')).rejects.toMatchObject({ code: 'LOCK_LOST', outcome: { status: 'fulfilled', value: 'done' }, message: expect.stringContaining('The work finished anyway') });
    await expect(locks.withLock('k', () => Promise.reject(new Error('disk full')))).rejects.toMatchObject({ code: 'LOCK_LOST', message: expect.stringMatching(/The work failed as well: disk full\.$/) });
    expect(await locks.withLock('k', { onLost: 'ignore' }, () => 'done')).toBe('done');
  });
});

describe('verify()', () => {
  it('is false for a lease that is lost here, though the store keeps it for its grace', async () => {
    const { clock, locks, wire } = setUp();
    const lease = await locks.acquire('k', { leaseMs: 1_000, graceMs: 5_000, renew: false });
    clock.block(1_001);
    expect(await lease.verify()).toBe(false);
    expect(wire.commands).toBe(1);
    await lease.release();
  });

  it('is false for a lease that was released, though the lock stays taken for its minHoldMs', async () => {
    const { locks } = setUp();
    const lease = await locks.acquire('k', { minHoldMs: 10_000 });
    expect(await lease.verify()).toBe(true);
    await lease.release();
    expect(await locks.isLocked('k')).toBe(true);
    expect(await lease.verify()).toBe(false);
  });

  it('is false when the store does not know one of several locks', async () => {
    for (const taken of ['a', 'b']) {
      const { locks, wire, other } = setUp();
      wire.lostWakes.add('lost');
      const lease = await locks.acquire(['a', 'b']);
      expect(await lease.verify()).toBe(true);
      await other.forceRelease(taken);
      expect(await lease.verify()).toBe(false);
      await lease.release();
    }
  });
});

describe('renew()', () => {
  it('without a length renews by that of the lease', async () => {
    const { clock, locks } = setUp();
    const lease = await locks.acquire('k', { leaseMs: 8_000, renew: false });
    await clock.advance(3_000);
    await lease.renew();
    expect(lease.remainingMs).toBe(8_000);
    await lease.release();
  });

  it('rejects when the store does not answer, and the lease is held until its present end', async () => {
    const { clock, locks, wire } = setUp();
    const lease = await locks.acquire('k', { leaseMs: 8_000 });
    wire.cut = true;
    await expect(lease.renew()).rejects.toMatchObject({ code: 'LOCK_STORE', message: expect.stringContaining('could not be renewed; the lease is trusted until its present end') });
    lease.assertHeld();
    wire.cut = false;
    await clock.settle();
    await lease.release();
  });

  it('rejects when the store says that it does not know the lease', async () => {
    const { locks, wire, other } = setUp();
    wire.lostWakes.add('lost');
    const lease = await locks.acquire('k');
    await other.forceRelease('k');
    await expect(lease.renew()).rejects.toBeInstanceOf(LockLostError);
    await lease.release();
  });
});
