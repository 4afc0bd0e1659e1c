/** Tickets in a user's unit test with `nestjs-holdfast/testing`, while the test has taken the store down. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';

/** The locks of a test, and the ticket of a hold that was handed off. */
async function withTicket(): Promise<{ test: TestLocks; ticket: string }> {
  const test = new TestLocks();
  const lease = await test.locks.acquire('order:1');
  return { test, ticket: await lease.handOff({ withinMs: 60_000 }) };
}

describe('with the store down', () => {
  it('an adoption is refused when its waitMs is over, without real time, and the ticket stays good', async () => {
    const { test, ticket } = await withTicket();
    test.storeDown();
    await expect(test.locks.adopt(ticket)).rejects.toThrow(LockStoreError);
    await expect(test.locks.withAdopted(ticket, { waitMs: 0 }, () => 'ran')).rejects.toThrow(LockStoreError);
    test.storeBack();
    expect(await test.locks.withAdopted(ticket, ({ key }) => key)).toBe('order:1');
    expect(await test.locks.isLocked('order:1')).toBe(false);
  });

  it('an adoption that began meanwhile goes on when the store is back in time', async () => {
    const { test, ticket } = await withTicket();
    test.storeDown();
    const adopting = test.locks.adopt(ticket);
    test.storeBack();
    expect(await (await adopting).release()).toBe('released');
  });

  it('a hand-off is refused without real time, and the lock is free when the store is back', async () => {
    const test = new TestLocks();
    const lease = await test.locks.acquire('order:1');
    test.storeDown();
    await expect(lease.handOff()).rejects.toThrow(LockStoreError);
    test.storeBack();
    await (await test.locks.acquire('order:1')).release();
  });

  it('no time passes for a ticket after its hand-off or adoption was answered', async () => {
    const { test, ticket } = await withTicket();
    const lease = await test.locks.adopt(ticket, { renew: false, leaseMs: 1_000 });
    await test.advance(0);
    expect(lease.remainingMs).toBe(1_000);
    expect(await lease.release()).toBe('released');
  });
});
