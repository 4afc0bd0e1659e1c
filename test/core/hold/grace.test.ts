/** graceMs: how long a lock stays taken after a lease that ended without a release, seen from calls of the library. */
import { describe, expect, it } from '@jest/globals';
import { LockLostError, LockTimeoutError, LockUsageError } from '../../../lib/core/port/errors.js';
import type { Lease, Leadership } from '../../../lib/index.js';
import { alone, Fleet } from '../../support/locks.js';

describe('A hold with graceMs', () => {
  it('is told of its loss at the end of its lease, and nobody follows it before its grace is over', async () => {
    const fleet = new Fleet();
    const [paused, other] = [fleet.process(), fleet.process()];
    const lease = await paused.locks.acquire('k', { leaseMs: 1_000, graceMs: 3_000 });
    paused.wire.cut = true;
    await fleet.clock.advance(1_001);
    expect(lease.signal.reason).toBeInstanceOf(LockLostError);
    expect(lease.remainingMs).toBe(0);
    const [early, late] = [other.locks.acquire('k', { waitMs: 2_000 }), other.locks.acquire('k', { waitMs: 20_000 })];
    early.catch(() => {});
    await fleet.clock.advance(2_100);
    await expect(early).rejects.toBeInstanceOf(LockTimeoutError);
    let granted = false;
    void late.then(() => (granted = true));
    await fleet.clock.advance(500);
    expect(granted).toBe(false);
    await fleet.clock.advance(1_500);
    expect(granted).toBe(true);
    await (await late).release();
  });

  it('loses its signal at maxHoldMs, and its lock the grace after that', async () => {
    const fleet = new Fleet();
    const [hung, other] = [fleet.process(), fleet.process()];
    const lease = await hung.locks.acquire('k', { leaseMs: 300, maxHoldMs: 1_000, graceMs: 2_000 });
    await fleet.clock.advance(1_001);
    expect(lease.signal.aborted).toBe(true);
    await fleet.clock.advance(1_500);
    expect(await other.locks.tryAcquire('k')).toBeNull();
    await fleet.clock.advance(600);
    await (await other.locks.tryAcquire('k'))?.release();
    expect(await other.locks.isLocked('k')).toBe(false);
  });

  it('is not handed on to a caller with another grace: that one would have less, or more, than it asked for', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { graceMs: 5_000 });
    const alike = locks.acquire('k', { graceMs: 5_000 });
    const unlike = locks.acquire('k', { graceMs: 10_000 });
    await fleet.clock.advance(10);
    await lease.release();
    await (await alike).release();
    const before = wire.sent.acquire;
    await unlike;
    expect(wire.sent.acquire).toBeGreaterThanOrEqual(before);
    expect((await locks.inspect('k')).holders).toMatchObject([{ graceMs: 10_000 }]);
  });

  it('has a grace on each of several keys', async () => {
    const { locks } = alone();
    const lease = await locks.acquire(['a', 'b'], { leaseMs: 1_000, graceMs: 4_000 });
    for (const key of ['a', 'b']) expect((await locks.inspect(key)).holders).toMatchObject([{ remainingMs: 1_000, graceMs: 4_000 }]);
    await lease.release();
    expect(await locks.isLocked('a')).toBe(false);
  });

  it('is not renewed to more than maxLeaseMs with its grace', async () => {
    const { locks } = alone();
    const lease = await locks.acquire('k', { graceMs: 20_000 });
    await expect(lease.renew(50_000)).rejects.toBeInstanceOf(LockUsageError);
    await lease.release();
  });
});

describe('A term with graceMs', () => {
  it('that is cut off is told at the end of its lease, and the next leads only after the grace; after stop() the next leads at once', async () => {
    const fleet = new Fleet();
    const [one, two] = [fleet.process({ leaseMs: 3_000 }), fleet.process({ leaseMs: 3_000 })];
    const terms: Lease[] = [];
    const untilTold = async (term: Lease): Promise<void> => {
      terms.push(term);
      if (!term.signal.aborted) await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
    };
    const [first, second] = [one, two].map(({ locks }) => locks.lead('indexer', untilTold, { graceMs: 20_000 })) as [Leadership, Leadership];
    await fleet.clock.settle();
    one.wire.cut = true;
    await fleet.clock.advance(3_001);
    expect(terms[0]?.signal.aborted).toBe(true);
    await fleet.clock.advance(18_000);
    expect(second.isLeader).toBe(false);
    await fleet.clock.advance(3_000);
    expect(second.isLeader).toBe(true);
    one.wire.cut = false;
    await fleet.clock.advance(2_000);
    await second.stop();
    await fleet.clock.advance(200);
    expect(first.isLeader).toBe(true);
    await first.stop();
  });
});
