/** How far the clock of `nestjs-holdfast/testing` goes by itself for calls that wait for longer than an hour. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError, LockTimeoutError, type LockService } from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';
import { everythingHasRun } from '../support/turns.js';

const HOUR_MS = 3_600_000;

/** A call that waits for ever, and how to end it and learn how long it waited on the clock of the locks. */
function waitForEver(locks: LockService, key: string): { acquired: Promise<unknown>; cancel: () => Promise<number | undefined> } {
  const controller = new AbortController();
  let waitedMs: number | undefined;
  locks.events.subscribe((event) => {
    if (event.type === 'cancelled') waitedMs = event.waitedMs;
  });
  const acquired = locks.acquire(key, { waitMs: Infinity, signal: controller.signal });
  const cancel = async (): Promise<number | undefined> => {
    controller.abort(new Error('cancelled'));
    await expect(acquired).rejects.toThrow('cancelled');
    return waitedMs;
  };
  return { acquired, cancel };
}

describe('for a call that waits for ever', () => {
  it.each([
    ['the lock is busy', async (test: TestLocks) => test.busy('k'), async (test: TestLocks) => test.free('k'), LockTimeoutError],
    ['the store is down', async (test: TestLocks) => test.storeDown(), async (test: TestLocks) => test.storeBack(), LockStoreError],
  ])('an hour passes, and then so much as the test advances or another call waits, while %s', async (_, fail, mend, reason) => {
    const test = new TestLocks();
    await fail(test);
    const { cancel } = waitForEver(test.locks, 'k');
    const { acquired } = waitForEver(test.locks, 'k');
    await expect(test.locks.acquire('k', { waitMs: HOUR_MS })).rejects.toThrow(reason);
    await everythingHasRun();
    await test.advance(60_000);
    await everythingHasRun();
    expect(await cancel()).toBe(HOUR_MS + 60_000);
    await expect(test.locks.acquire('k', { waitMs: 10_000 })).rejects.toThrow(reason);
    await mend(test);
    expect(await acquired).toMatchObject({ key: 'k' });
  });

  it('no more passes after its hour than a call for another lock waits', async () => {
    const test = new TestLocks();
    await test.busy('k');
    await test.busy('other');
    const { cancel } = waitForEver(test.locks, 'k');
    await expect(test.locks.acquire('other', { waitMs: HOUR_MS })).rejects.toThrow(LockTimeoutError);
    await expect(test.locks.acquire('other', { waitMs: 10_000 })).rejects.toThrow(LockTimeoutError);
    await everythingHasRun();
    expect(await cancel()).toBe(HOUR_MS + 10_000);
  });

  it('the hour begins when code of the test can no longer end its wait', async () => {
    const test = new TestLocks({ maxLeaseMs: 3 * HOUR_MS });
    const lease = await test.locks.acquire('k', { minHoldMs: 2.5 * HOUR_MS });
    const { acquired } = waitForEver(test.locks, 'k');
    await test.advance(2 * HOUR_MS);
    await lease.release();
    expect(await acquired).toMatchObject({ key: 'k' });
  });
});
