/** Many callers of one process that wait for one lock: who comes in with whom, in bursts of which size, and who has a queue of its own. */
import { describe, expect, it } from '@jest/globals';
import { alone, gate } from '../../support/locks.js';

describe('Readers of one process that waited together', () => {
  it.each([65, 300])('(%i of them) come in 64 at a time, with timers and sockets in between', async (count) => {
    const { fleet, locks } = alone();
    const writer = await locks.acquire('k');
    let [served, seen, most] = [0, 0, 0];
    const look = (): void => {
      most = Math.max(most, served - seen);
      seen = served;
      if (served < count) fleet.clock.nextTurn(look);
    };
    const readers = Array.from({ length: count }, () => locks.withLock('k', { mode: 'read' }, async () => void (served += 1)));
    await fleet.clock.settle();
    fleet.clock.nextTurn(look);
    await writer.release();
    await fleet.clock.runUntil(Promise.all(readers));
    expect([served, most]).toEqual([count, 64]);
  });

  it('all read together though a writer elsewhere begins to wait while they come in, and who comes later waits behind it', async () => {
    const { fleet, locks } = alone();
    const elsewhere = fleet.process().locks;
    const order: string[] = [];
    const first = await locks.acquire('k');
    const work = gate();
    const calls: Promise<unknown>[] = Array.from({ length: 100 }, async (_, n) => {
      const lease = await locks.acquire('k', { mode: 'read' });
      order.push('reader');
      if (n === 0) {
        calls.push(elsewhere.withLock('k', async () => void order.push('writer')));
        calls.push(locks.withLock('k', { mode: 'read' }, async () => void order.push('late reader')));
      }
      await work.promise;
      await lease.release();
    });
    await fleet.clock.settle();
    await first.release();
    await fleet.clock.settle();
    expect(order).toEqual(Array.from({ length: 100 }, () => 'reader'));
    work.open();
    await fleet.clock.settle();
    await fleet.clock.runUntil(Promise.all(calls));
    expect(order.slice(100)).toEqual(['writer', 'late reader']);
  });
});

describe('A writer of a process', () => {
  it('does not pass a reader of its process that came before it', async () => {
    const { fleet, locks } = alone();
    const other = await fleet.process().locks.acquire('k');
    const order: string[] = [];
    const calls = ['read', 'write', 'write'].map((mode, n) => locks.withLock('k', { mode: mode as 'read' | 'write' }, async () => void order.push(`${n} ${mode}`)));
    await fleet.clock.settle();
    await other.release();
    await fleet.clock.runUntil(Promise.all(calls));
    expect(order).toEqual(['0 read', '1 write', '2 write']);
  });
});

describe('Calls that do not wait for each other in their process', () => {
  it.each([
    ['callers of two owners', [{ mode: 'read', owner: 'a' }, { mode: 'read', owner: 'b' }]],
    ['a reader and an owner', [{ mode: 'read' }, { mode: 'read', owner: 'a' }]],
  ] as const)('(%s) each hear at once that the lock was taken away from them', async (_what, [one, two]) => {
    const { fleet, locks } = alone();
    const kept = await locks.acquire('k', one);
    const taken = await locks.acquire('k', two);
    await fleet.process().locks.forceRelease('k', { fence: taken.fence });
    await fleet.clock.settle();
    expect([kept.signal.aborted, taken.signal.aborted]).toEqual([false, true]);
    expect(await taken.release()).toBe('lost');
    await fleet.process().locks.forceRelease('k', { fence: kept.fence });
    await fleet.clock.settle();
    expect([kept.signal.aborted, await kept.release()]).toEqual([true, 'lost']);
  });

  it('hear it also when another came after them and has it still', async () => {
    const { fleet, locks } = alone();
    const taken = await locks.acquire('k', { mode: 'read', owner: 'a' });
    const kept = await locks.acquire('k', { mode: 'read', owner: 'b' });
    await fleet.process().locks.forceRelease('k', { fence: taken.fence });
    await fleet.clock.settle();
    expect([taken.signal.aborted, kept.signal.aborted]).toEqual([true, false]);
    expect([await taken.release(), await kept.release()]).toEqual(['lost', 'released']);
  });

  it('share a request where they can: readers with the terms of another that stands aside ask with it', async () => {
    const { fleet, locks, wire } = alone();
    const other = await fleet.process().locks.acquire('k');
    const readers = [6_000, 5_000, 5_000, 5_000].map((leaseMs) => locks.acquire('k', { mode: 'read', leaseMs }));
    await fleet.clock.settle();
    expect(wire.sent.acquire).toBe(2);
    const since = fleet.clock.now();
    await other.release();
    const leases = await fleet.clock.runUntil(Promise.all(readers));
    expect(fleet.clock.now()).toBe(since);
    for (const lease of leases) await lease.release();
  });
});
