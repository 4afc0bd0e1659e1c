/** Roles in a user's unit test with `nestjs-holdfast/testing`: another process leads, a term is lost, a rest passes. */
import { describe, expect, it } from '@jest/globals';
import type { Lease } from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';

/** Some real time for everything that could go on. */
const aWhile = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 30));

describe('a role', () => {
  const until = async (term: Lease): Promise<void> => new Promise((resolve) => term.signal.addEventListener('abort', () => resolve()));

  it('that somebody else leads, is led here when it is free, is lost, and is led again', async () => {
    const test = new TestLocks();
    await test.busy('leader:indexer');
    const leadership = test.locks.lead('indexer', until);
    await aWhile();
    expect(leadership.isLeader).toBe(false);
    await test.free('leader:indexer');
    await aWhile();
    expect(leadership.isLeader).toBe(true);
    const { term } = leadership;
    await test.lose('leader:indexer');
    expect(term!.signal.reason).toMatchObject({ code: 'LOCK_LOST' });
    await aWhile();
    expect(leadership.isLeader).toBe(true);
    await leadership.stop();
  });

  it('that is stood for lets no time pass by itself', async () => {
    const test = new TestLocks();
    // A lease that is not renewed shows whether time has passed.
    const lease = await test.locks.acquire('order:1', { renew: false, leaseMs: 60_000 });
    const leftMs = lease.remainingMs;
    await test.busy('leader:indexer', { forMs: 60_000 });
    const leadership = test.locks.lead('indexer', until);
    await aWhile();
    expect(lease.remainingMs).toBe(leftMs);
    expect(leadership.isLeader).toBe(false);
    await test.advance(60_000);
    expect(leadership.isLeader).toBe(true);
    await leadership.stop();
  });

  it('is led again when the rest after its function is over on the clock of the locks', async () => {
    const test = new TestLocks();
    let terms = 0;
    const leadership = test.locks.lead('indexer', async () => void (terms += 1), { restMs: 10_000 });
    await aWhile();
    expect(terms).toBe(1);
    await test.advance(12_500);
    expect(terms).toBe(2);
    await leadership.stop();
  });

  it('whose function returns at once, with a rest of 0 ms, is led once in a millisecond and leaves the event loop its turns', async () => {
    const test = new TestLocks();
    let terms = 0;
    // Without turns of the event loop no test could end this: so the function ends it by itself.
    const once = async (term: Lease): Promise<void> => ((terms += 1) > 1_000 ? until(term) : undefined);
    const leadership = test.locks.lead('indexer', once, { restMs: 0 });
    await aWhile();
    expect(terms).toBe(1);
    await test.advance(10);
    expect(terms).toBe(11);
    await leadership.stop();
  });
});
