import { describe, expect, it } from '@jest/globals';
import type { RenewOutcome, RenewRequest } from '../../lib/core/port/lock-store.js';
import { Fleet } from '../support/locks.js';

describe('The watchdog', () => {
  it('renews ten thousand leases of 3 s with at most 60 commands a second and loses none', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process({ leaseMs: 3_000 });
    const leases = await fleet.clock.runUntil(Promise.all(Array.from({ length: 10_000 }, (_, n) => locks.acquire(`k:${n}`))));
    await fleet.clock.advance(3_000);
    const before = wire.sent.renew;
    await fleet.clock.advance(10_000);
    expect((wire.sent.renew - before) / 10).toBeLessThanOrEqual(60);
    for (const lease of leases) lease.assertHeld();
  });

  it('renews locks that can share a command together, though they were taken one after another', async () => {
    const fleet = new Fleet();
    const groupOf = (key: string): number => Number(key) % 50;
    const { locks, wire } = fleet.process({ leaseMs: 3_000 }, groupOf);
    let groups = 0;
    const renew = wire.renew.bind(wire);
    wire.renew = (requests) => {
      groups += new Set(requests.map(({ key }) => groupOf(key))).size;
      return renew(requests);
    };
    const leases = [];
    for (let n = 0; n < 500; n++) {
      leases.push(await locks.acquire(String(n)));
      await fleet.clock.advance(5);
    }
    await fleet.clock.advance(3_000);
    groups = 0;
    await fleet.clock.advance(10_000);
    // Every group about once a second.
    expect(groups / 10).toBeLessThanOrEqual(60);
    for (const lease of leases) lease.assertHeld();
  });

  it('sends at most 250 ids at once, and a batch that gets no answer holds up no other', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process({ leaseMs: 3_000 });
    const leases = await fleet.clock.runUntil(Promise.all(Array.from({ length: 1_000 }, (_, n) => locks.acquire(`k:${n}`))));
    const sizes: number[] = [];
    const stuck = new Set<string>();
    const renew = wire.renew.bind(wire);
    wire.renew = (requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> => {
      sizes.push(requests.length);
      // The first batch hangs for ever, as on a connection that went silent.
      if (stuck.size === 0) requests.forEach(({ key }) => stuck.add(key));
      return stuck.has(requests[0]!.key) ? new Promise(() => {}) : renew(requests);
    };
    await fleet.clock.advance(20_000);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(250);
    for (const lease of leases) expect(lease.signal.aborted).toBe(stuck.has(lease.key));
  });

  it('believes no renewal that promises more than was asked for, as a server does whose clock was set back', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process({ leaseMs: 3_000 });
    const lease = await locks.acquire('k');
    const renew = wire.renew.bind(wire);
    wire.renew = async (requests) => {
      const outcomes = await renew(requests);
      return outcomes.map((outcome) => (outcome.kind === 'renewed' ? { ...outcome, trustedUntil: outcome.trustedUntil + 3_600_000 } : outcome));
    };
    const before = wire.sent.renew;
    await fleet.clock.advance(6_000);
    expect(lease.remainingMs).toBeLessThanOrEqual(3_000);
    expect(wire.sent.renew - before).toBeGreaterThanOrEqual(4);
  });

  it('tries a renewal without an answer again until trust ends', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const failed: string[] = [];
    locks.events.subscribe((event) => event.type === 'renewFailed' && failed.push(event.key));
    const lease = await locks.acquire('k', { leaseMs: 3_000 });
    wire.cut = true;
    await fleet.clock.advance(2_500);
    expect(failed.length).toBeGreaterThanOrEqual(2);
    wire.cut = false;
    await fleet.clock.advance(10_000);
    lease.assertHeld();
    expect(await lease.release()).toBe('released');
  });

  it('ignores what a renewal answers after the lease was released', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const lease = await locks.acquire('k', { leaseMs: 3_000 });
    let answer!: (outcomes: readonly RenewOutcome[]) => void;
    wire.renew = () => new Promise((resolve) => (answer = resolve));
    await fleet.clock.advance(1_200);
    expect(await lease.release()).toBe('released');
    answer([{ kind: 'renewed', trustedUntil: Infinity, contended: false }]);
    await fleet.clock.advance(20);
    expect(fleet.clock.pendingTimers).toBe(0);
    expect(lease.remainingMs).toBe(0);
  });

  it('sends nothing and has no timer while nobody holds or waits', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    await locks.withLock('k', async () => {});
    const { commands } = wire;
    await fleet.clock.advance(20);
    expect(fleet.clock.pendingTimers).toBe(0);
    await fleet.clock.advance(60_000);
    expect(wire.commands).toBe(commands);
  });
});
