/** The contract's part about grace: how long a lock stays taken after a lease that ended without a release. */
import { expect } from '@jest/globals';
import { pause } from '../../lib/core/port/clock.js';
import { until, type Contender } from './contender.js';
import type { Promised, Stage } from './lock-store.contract.js';

const LEASE_MS = 300;
const GRACE_MS = 2_000;

export function keepsGrace(stage: Stage, promised: Promised): void {
  const { clock } = stage;

  /** A holder that stands still from its grant on, and another who wants the lock. */
  const paused = async (): Promise<{ holder: Contender; other: Contender; since: number; trustedUntil: number }> => {
    const key = stage.newKey();
    const [holder, other] = [stage.contender(key), stage.contender(key)];
    const since = clock.now();
    const { trustedUntil } = await holder.acquires({ leaseMs: LEASE_MS, graceMs: GRACE_MS });
    return { holder, other, since, trustedUntil };
  };

  /** Asks again and again, without a place, and tells when it was granted. */
  const grantedAt = async (other: Contender): Promise<number> => {
    await until(clock, async () => (await other.ask({ queue: false })).kind === 'granted', 'the grace ends');
    return clock.now();
  };

  promised(['P15', 'P9'], 'nobody is granted the lock of a paused holder before its lease and its grace have passed, and it trusts the lease only', async () => {
    const { other, since, trustedUntil } = await paused();
    expect(trustedUntil - since).toBeLessThanOrEqual(LEASE_MS + 100);
    const at = await grantedAt(other);
    expect(at - since).toBeGreaterThanOrEqual(LEASE_MS + GRACE_MS);
    expect(at - since).toBeLessThan(LEASE_MS + GRACE_MS + stage.lateMs);
    await other.release();
  });

  promised(['P15', 'inspect'], 'a hold in its grace is shown as one whose lease has ended, with the time until the lock is free', async () => {
    const { holder, other, trustedUntil } = await paused();
    const [live] = (await other.inspect()).holders;
    expect(live?.remainingMs).toBeLessThanOrEqual(LEASE_MS);
    expect(live?.graceMs).toBe(GRACE_MS);
    while (clock.now() <= trustedUntil) await pause(clock, 10);
    await until(clock, async () => (await other.inspect()).holders[0]?.remainingMs === 0, 'the lease has ended');
    const [ended] = (await other.inspect()).holders;
    expect(ended).toMatchObject({ id: holder.id, remainingMs: 0 });
    expect(ended?.graceMs).toBeGreaterThan(0);
    expect(ended?.graceMs).toBeLessThanOrEqual(GRACE_MS);
    await holder.release();
  });

  promised(['P15', 'P4'], 'a release hands over at once, while the lease lasts and in its grace', async () => {
    const { holder, other, trustedUntil } = await paused();
    expect(await holder.release()).toBe('released');
    await other.acquires({ leaseMs: LEASE_MS, graceMs: GRACE_MS });
    await other.release();
    await holder.acquires({ leaseMs: LEASE_MS, graceMs: GRACE_MS });
    while (clock.now() <= trustedUntil + LEASE_MS) await pause(clock, 10);
    await other.isRefused();
    await holder.release();
    await other.acquires();
    await other.release();
  });

  promised(['P15', 'P5'], 'a renewal keeps the grace behind the new end', async () => {
    const { holder, other } = await paused();
    const since = clock.now();
    const { trustedUntil } = await holder.renews(2 * LEASE_MS);
    expect(trustedUntil - since).toBeLessThanOrEqual(2 * LEASE_MS + 100);
    expect((await grantedAt(other)) - since).toBeGreaterThanOrEqual(2 * LEASE_MS + GRACE_MS);
    await other.release();
  });

  promised(['P15', 'minHold'], 'the grace comes after the longer of lease and minHoldMs, and a release owes only the minHoldMs', async () => {
    const key = stage.newKey();
    const [holder, other] = [stage.contender(key), stage.contender(key)];
    const since = clock.now();
    const { trustedUntil } = await holder.acquires({ leaseMs: LEASE_MS, minHoldMs: 2 * LEASE_MS, graceMs: GRACE_MS });
    expect(trustedUntil - since).toBeGreaterThan(LEASE_MS);
    await holder.release();
    const at = await grantedAt(other);
    expect(at - since).toBeGreaterThanOrEqual(2 * LEASE_MS);
    expect(at - since).toBeLessThan(2 * LEASE_MS + GRACE_MS);
    await other.release();
  });

  promised(['P15', 'P8', 'queue'], 'a grant to a waiter is short and has its whole grace: one that died delays the next by both', async () => {
    const key = stage.newKey();
    const [holder, dead, live] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    await holder.acquires();
    await dead.queues({ leaseMs: 30_000, graceMs: GRACE_MS });
    await live.queues({ leaseMs: 30_000, graceMs: GRACE_MS });
    const since = clock.now();
    await holder.release();
    const grant = await dead.isLetIn();
    expect(grant.trustedUntil - clock.now()).toBeGreaterThan(0);
    expect(grant.trustedUntil - clock.now()).toBeLessThanOrEqual(1_600);
    const next = await live.isLetIn();
    expect(clock.now() - since).toBeGreaterThanOrEqual(1_500 + GRACE_MS);
    expect(next.trustedUntil).toBeGreaterThan(clock.now());
    expect((await live.renews(30_000)).trustedUntil).toBeLessThanOrEqual(clock.now() + 30_000);
    await live.release();
  });
}
