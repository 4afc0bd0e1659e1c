/** Messages of the store are hints: which of them count, and for which of the process's leases and requests. */
import { describe, expect, it } from '@jest/globals';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import { alone, Fleet, gate, twoReadLeases } from '../../support/locks.js';

describe('A message of the store', () => {
  it('that a lock was taken away reaches its holder at once, also beside a newer read lease of the same process', async () => {
    const { fleet, earlier, newer } = await twoReadLeases('k');
    await fleet.process().locks.forceRelease('k', { fence: earlier.fence });
    await fleet.clock.settle();
    expect(earlier.signal.aborted).toBe(true);
    expect(newer.signal.aborted).toBe(false);
  });

  it.each([['a lock', {}], ['a permit', { permits: 3 }]])('that %s was taken away, and is not true, makes a lease of fixed length no longer', async (_what, options) => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { leaseMs: 1_000, renew: false, ...options });
    await fleet.clock.advance(800);
    fleet.wake({ kind: 'lost', key: 'k', id: (await locks.inspect('k')).holders[0]!.id });
    await fleet.clock.settle();
    expect(wire.sent.renew).toBe(1);
    lease.assertHeld();
    expect(lease.remainingMs).toBeLessThanOrEqual(200);
  });

  it('lets nobody begin before the store has told of a place in its queue', async () => {
    const fleet = new Fleet();
    const other = await fleet.process().locks.acquire('k');
    const { locks, wire } = fleet.process();
    const { acquire } = wire;
    const sent = gate();
    let asked: AcquireRequest | undefined;
    wire.acquire = async (request) => {
      asked = request;
      await sent.promise;
      return acquire.call(wire, request);
    };
    let began = false;
    const waiting = locks.acquire('k').then((lease) => {
      began = true;
      return lease;
    });
    await fleet.clock.settle();
    const now = fleet.clock.now();
    const grant = { fence: other.fence + 1, fences: 1, mode: 'write', grantedAt: now, trustedUntil: now + 10_000, contended: false } as const;
    fleet.wake({ kind: 'granted', key: 'k', id: asked!.id, grant });
    await fleet.clock.settle();
    expect(began).toBe(false);
    sent.open();
    await fleet.clock.settle();
    await other.release();
    const lease = await fleet.clock.runUntil(waiting);
    expect(await lease.verify()).toBe(true);
  });

  it('that comes while the store is being asked makes the process ask once more, because the answer may be older', async () => {
    const fleet = new Fleet();
    const other = await fleet.process().locks.acquire('k');
    const { locks, wire } = fleet.process();
    wire.lostWakes.add('granted');
    const waiting = locks.acquire('k');
    await fleet.clock.settle();
    const { id } = (await fleet.store.inspect('k')).waiters[0]!;
    const { acquire } = wire;
    const answer = gate();
    wire.acquire = async (request) => {
      const outcome = await acquire.call(wire, request);
      await answer.promise;
      return outcome;
    };
    fleet.wake({ kind: 'ask', key: 'k', id });
    await fleet.clock.settle();
    await other.release();
    fleet.wake({ kind: 'ask', key: 'k', id });
    const since = fleet.clock.now();
    answer.open();
    const lease = await fleet.clock.runUntil(waiting);
    expect(fleet.clock.now() - since).toBeLessThan(100);
    await lease.release();
  });

  it('that comes while a grant of fixed length is renewed asks nothing: a Redlock takes a grant back that it does not find again at once', async () => {
    const fleet = new Fleet();
    const other = await fleet.process().locks.acquire('k');
    const { locks, wire } = fleet.process();
    const waiting = locks.acquire('k', { renew: false });
    await fleet.clock.settle();
    const { id } = (await fleet.store.inspect('k')).waiters[0]!;
    const { acquire, renew } = wire;
    const answer = gate();
    let renewals = 0;
    wire.renew = async (requests) => {
      renewals += 1;
      await answer.promise;
      return renew.call(wire, requests);
    };
    await other.release();
    await fleet.clock.settle();
    let asked = 0;
    wire.acquire = (request) => {
      asked += 1;
      return acquire.call(wire, request);
    };
    fleet.wake({ kind: 'ask', key: 'k', id });
    await fleet.clock.settle();
    expect([renewals, asked]).toEqual([1, 0]);
    answer.open();
    const lease = await fleet.clock.runUntil(waiting);
    expect(await lease.verify()).toBe(true);
    await lease.release();
  });
});
