import { describe, expect, it } from '@jest/globals';
import type { LockStoreError } from '../../../lib/core/port/errors.js';
import { storeFailure } from '../../../lib/stores/wire/store-failure.js';
import { alone, Fleet } from '../../support/locks.js';

describe('A store that does not answer', () => {
  function silent(): ReturnType<Fleet['process']> & { fleet: Fleet } {
    const fleet = new Fleet();
    const one = fleet.process();
    one.wire.acquire = () => new Promise<never>(() => {});
    return { ...one, fleet };
  }

  it('keeps nobody who does not want to wait for longer than a second', async () => {
    const { locks, fleet } = silent();
    const since = fleet.clock.now();
    const attempt = locks.tryAcquire('k');
    await expect(fleet.clock.runUntil(attempt)).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect(fleet.clock.now() - since).toBeLessThanOrEqual(1_000);
  });

  it.each([0, 300])('is told as one that began nothing, and not as an unknown outcome as well (waitMs: %d)', async (waitMs) => {
    const { fleet, locks, wire } = alone();
    wire.acquire = async ({ key }) => {
      throw storeFailure(new Error('read ECONNRESET'), { what: 'acquire', key, node: '127.0.0.1:6379' });
    };
    const error: LockStoreError = await fleet.clock.runUntil(locks.acquire('k', { waitMs }).then(() => undefined, (reason) => reason));
    expect(error.message).toMatch(/^Lock 'k' could not be acquired .*, because the store failed: 127\.0\.0\.1:6379: read ECONNRESET\. The work did not begin.* safe to try again\.$/);
    expect(error.message).not.toContain('not known');
    expect(error.retryable).toBe(true);
  });

  it('is told as such, not as a busy lock, also when the wait is shorter than a command may take', async () => {
    for (const waitMs of [100, 300, 1_500]) {
      const { locks, fleet } = silent();
      const since = fleet.clock.now();
      await expect(fleet.clock.runUntil(locks.acquire('k', { waitMs }))).rejects.toMatchObject({ code: 'LOCK_STORE' });
      expect(fleet.clock.now() - since).toBeCloseTo(waitMs, 0);
    }
  });

  it('keeps a caller of two locks that got only one for half a second at most', async () => {
    const fleet = new Fleet();
    await fleet.process().locks.acquire('two');
    const { locks, wire } = fleet.process();
    wire.release = () => new Promise<never>(() => {});
    const since = fleet.clock.now();
    await expect(fleet.clock.runUntil(locks.acquire(['one', 'two'], { waitMs: 300 }))).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    expect(fleet.clock.now() - since).toBeLessThanOrEqual(300 + 500);
  });

  it.each([
    { waitMs: 0, renew: true },
    { waitMs: 0, renew: false },
    { waitMs: 300, renew: true },
    { waitMs: 300, renew: false },
  ])('from the second of two locks on keeps its caller no longer than a second beyond its waitMs ($waitMs ms, renew $renew)', async ({ waitMs, renew }) => {
    for (const answered of [1, 2]) {
      const { fleet, locks, wire } = alone();
      const { acquire } = wire;
      wire.renew = () => new Promise<never>(() => {});
      wire.release = () => new Promise<never>(() => {});
      wire.acquire = (request) => {
        if (wire.sent.acquire === answered) return new Promise<never>(() => {});
        // The last answer comes when the time is nearly over.
        wire.slowMs = wire.sent.acquire === 1 ? (waitMs || 800) - 20 : 0;
        return acquire.call(wire, request);
      };
      const since = fleet.clock.now();
      const ended = locks.acquire(['one', 'two'], { waitMs, renew, leaseMs: 5_000 }).then(
        () => 'granted',
        (error: LockStoreError) => error.code,
      );
      await fleet.clock.runUntil(ended);
      expect(fleet.clock.now() - since).toBeLessThanOrEqual(waitMs + 1_000);
    }
  });

  it('in the time of so short a lease is told as such, not as a busy lock', async () => {
    const { fleet, locks, wire } = alone();
    const { acquire } = wire;
    wire.acquire = async (request) => {
      const outcome = await acquire.call(wire, request);
      await new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 120));
      return outcome;
    };
    const callers = Array.from({ length: 50 }, () => locks.acquire('k', { leaseMs: 100, waitMs: 1_000 }));
    const refused = callers.map((caller) => expect(caller).rejects.toMatchObject({ code: 'LOCK_STORE', message: expect.stringContaining('longer lease') }));
    await fleet.clock.runUntil(Promise.all(refused));
  });
});
