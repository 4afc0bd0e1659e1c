/** Permits in a user's unit test with `nestjs-holdfast/testing`. */
import { describe, expect, it } from '@jest/globals';
import { LockTimeoutError, LockUsageError } from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';

describe('a lock with permits in a test', () => {
  it('that the test made busy is busy for calls with permits and without, until it is freed', async () => {
    const test = new TestLocks();
    await test.busy('smtp');
    await expect(test.locks.acquire('smtp', { permits: 3 })).rejects.toBeInstanceOf(LockTimeoutError);
    expect(await test.locks.tryAcquire('smtp', { permits: 3 })).toBeNull();
    expect((await test.locks.inspect('smtp')).holders).toHaveLength(3);
    await expect(test.locks.acquire('smtp')).rejects.toBeInstanceOf(LockTimeoutError);
    await test.free('smtp');
    await (await test.locks.acquire('smtp', { permits: 3 })).release();
  });

  it('is free again when the time is over for which it was busy', async () => {
    const test = new TestLocks();
    await test.busy('smtp', { forMs: 5_000 });
    const lease = await test.locks.acquire('smtp', { permits: 3, waitMs: 10_000 });
    await lease.release();
  });

  it('is held as often as it has permits, and loses them all at once', async () => {
    const test = new TestLocks();
    const [one, other] = [await test.locks.acquire('smtp', { permits: 2 }), await test.locks.acquire('smtp', { permits: 2 })];
    expect(await test.locks.tryAcquire('smtp', { permits: 2 })).toBeNull();
    await expect(test.locks.acquire('smtp', { permits: 3 })).rejects.toBeInstanceOf(LockUsageError);
    await test.lose('smtp');
    for (const lease of [one, other]) {
      expect(lease.signal.aborted).toBe(true);
      expect(await lease.release()).toBe('lost');
    }
    await (await test.locks.acquire('smtp', { permits: 2 })).release();
  });

  it('gives a permit back with the lease of a holder that the store cannot hear of', async () => {
    const test = new TestLocks();
    const held = await test.locks.acquire('smtp', { permits: 2, leaseMs: 5_000, renew: false });
    const other = await test.locks.acquire('smtp', { permits: 2 });
    await test.advance(5_000);
    expect(held.signal.aborted).toBe(true);
    const next = await test.locks.acquire('smtp', { permits: 2 });
    expect(next.fence).toBeGreaterThan(other.fence);
    for (const lease of [other, next]) await lease.release();
  });

  it('takes no option that there is not', () => {
    expect(() => new TestLocks({ permits: 3 } as never)).toThrow("TestLocks: unknown option 'permits'");
  });
});
