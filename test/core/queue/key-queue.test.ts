import { describe, expect, it } from '@jest/globals';
import type { LockEvent } from '../../../lib/core/port/lock-events.js';
import { Fleet, gate } from '../../support/locks.js';

describe('The callers of one process that want one lock', () => {
  it('tell each that they wait, also those that ask nothing of the store themselves', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const told: LockEvent[] = [];
    locks.events.subscribe((event) => told.push(event));
    const lease = await locks.acquire('k');
    const waiting = [1, 2, 3].map(() => locks.acquire('k').then((next) => next.release()));
    await fleet.clock.settle();
    expect([told.map(({ type }) => type), wire.sent.acquire]).toEqual([['granted', 'waiting', 'waiting', 'waiting'], 1]);
    await lease.release();
    await fleet.clock.runUntil(Promise.all(waiting));
  });

  it('keep the place of the first in the queue of the store when one behind it, who wants other terms, gives up', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const other = await fleet.process().locks.acquire('k');
    const first = locks.acquire('k', { leaseMs: 5_000 });
    const second = locks.acquire('k', { leaseMs: 9_000, waitMs: 100 });
    second.catch(() => {});
    await fleet.clock.advance(200);
    await expect(second).rejects.toThrow('k');
    expect(wire.sent).toMatchObject({ acquire: 1, release: 0 });
    await other.release();
    await (await fleet.clock.runUntil(first)).release();
  });

  it('pass over a message about a lease that is not here any more', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const lease = await locks.acquire('k');
    fleet.wake({ kind: 'lost', key: 'k', id: 'p1.none' });
    await fleet.clock.settle();
    expect(wire.sent.renew).toBe(0);
    lease.assertHeld();
    await lease.release();
  });

  it('that all read and want minHoldMs have a lease each', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const other = await fleet.process().locks.acquire('k');
    const reading = [1, 2].map(() => locks.acquire('k', { mode: 'read', minHoldMs: 1 }));
    await fleet.clock.settle();
    await other.release();
    const leases = await fleet.clock.runUntil(Promise.all(reading));
    expect([new Set(leases.map(({ fence }) => fence)).size, wire.sent.acquire]).toEqual([2, 2]);
  });
});

describe('A lease that was lost by the clock of its process', () => {
  it('is released for those who wait when the last of its callers leaves it, and not before', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const [one, two] = [await locks.acquire('k', { mode: 'read', leaseMs: 2_000 }), await locks.acquire('k', { mode: 'read', leaseMs: 2_000 })];
    wire.cut = true;
    await fleet.clock.advance(2_000);
    wire.cut = false;
    expect([one.signal.aborted, await one.release(), wire.sent.release]).toEqual([true, 'lost', 0]);
    expect([await two.release(), wire.sent.release]).toEqual(['lost', 1]);
  });
});

describe('A process whose caller gave up', () => {
  it('asks for the next writer with the same wishes though readers of it have the lock, so that it is served after them', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const reader = await locks.acquire('k', { mode: 'read' });
    await expect(fleet.clock.runUntil(locks.acquire('k', { waitMs: 100 }))).rejects.toThrow('k');
    const asked = wire.sent.acquire;
    const writer = locks.acquire('k', { waitMs: 5_000 });
    await fleet.clock.settle();
    expect(wire.sent.acquire).toBe(asked + 1);
    await reader.release();
    expect(await (await fleet.clock.runUntil(writer)).release()).toBe('released');
  });

  it('gives the lock back when the last who wait give up while it pauses for timers and sockets', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const stop = new AbortController();
    let served = 0;
    const calls = Array.from({ length: 100 }, () => locks.withLock('k', { signal: stop.signal }, async () => void (served += 1)));
    // The 64 of one burst, and the one that the store's answer begins with.
    void calls[64]!.then(() => stop.abort('enough'));
    const outcomes = await fleet.clock.runUntil(Promise.allSettled(calls));
    await fleet.clock.settle();
    expect([served, outcomes.filter(({ status }) => status === 'rejected').length, await locks.isLocked('k')]).toEqual([65, 35, false]);
  });
});

describe('A lease that ended while its queue still had it', () => {
  it('is not shared with a reader who comes after the machine slept for longer than it lasts', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const first = await locks.acquire('k', { mode: 'read', leaseMs: 3_000 });
    fleet.clock.sleepMachine(10_000);
    const lease = await fleet.clock.runUntil(locks.acquire('k', { mode: 'read', leaseMs: 3_000 }));
    expect([wire.sent.acquire, lease.signal.aborted, await first.release()]).toEqual([2, false, 'lost']);
    await lease.release();
  });

  it('costs no release when an operator took the lock away', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const lease = await locks.acquire('k');
    await fleet.process().locks.forceRelease('k');
    await fleet.clock.settle();
    expect([lease.signal.aborted, await lease.release(), wire.sent.release]).toEqual([true, 'lost', 0]);
  });

  it.each([
    { callers: 2, fences: 16 },
    { callers: 20, fences: 20 },
  ])('is followed by one with fences for all $callers that wait here, or for as many as may follow each other', async ({ callers, fences }) => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const lost = await locks.acquire('k');
    const asked: number[] = [];
    const { acquire } = wire;
    wire.acquire = (request) => (asked.push(request.fences), acquire.call(wire, request));
    const calls = Array.from({ length: callers }, () => locks.withLock('k', async () => {}));
    await fleet.clock.settle();
    await fleet.process().locks.forceRelease('k');
    await fleet.clock.runUntil(Promise.all(calls));
    expect([asked[0], await lost.release()]).toEqual([fences, 'lost']);
  });

  it('leaves the next lease of the lock alone when it is answered late that it was downgraded', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const [answer, works, readsInside] = [gate(), gate(), gate()];
    const downgrade = wire.downgrade.bind(wire);
    wire.downgrade = async (holder) => {
      const outcome = await downgrade(holder);
      await answer.promise;
      return outcome;
    };
    let inside: Promise<unknown> | undefined;
    const outlived = locks.withLock('k', { onLost: 'ignore' }, async () => {
      inside = locks.withLock('k', { mode: 'read', onLost: 'ignore' }, () => readsInside.promise);
      await works.promise;
    });
    await fleet.clock.settle();
    works.open();
    await outlived;
    await fleet.process().locks.forceRelease('k');
    await fleet.clock.settle();
    const next = await fleet.clock.runUntil(locks.acquire('k'));
    answer.open();
    await fleet.clock.settle();
    await fleet.process().locks.forceRelease('k');
    await fleet.clock.settle();
    expect([next.signal.aborted, wire.sent.downgrade]).toEqual([true, 1]);
    readsInside.open();
    await inside;
    expect(await next.release()).toBe('lost');
  });
});

describe('A lock that was taken with minHoldMs for work that never began', () => {
  it('goes to the next caller of its process at once: nobody owes the minHoldMs', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const other = await fleet.process().locks.acquire('b');
    const both = expect(locks.acquire(['a', 'b'], { minHoldMs: 20_000, waitMs: 40 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    await fleet.clock.settle();
    const since = fleet.clock.now();
    const next = await fleet.clock.runUntil(locks.acquire('a'));
    expect(fleet.clock.now() - since).toBeLessThanOrEqual(40);
    await both;
    for (const lease of [next, other]) expect(await lease.release()).toBe('released');
  });
});

describe('A lease that is passed on through the store', () => {
  it('is renewed no more, also while others have the lock before the next caller of the process', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const first = await locks.acquire('k', { leaseMs: 2_000 });
    const other = fleet.process().locks.acquire('k');
    await fleet.clock.settle();
    const next = locks.acquire('k', { leaseMs: 2_000 });
    await fleet.clock.advance(100);
    await first.release();
    const between = await fleet.clock.runUntil(other);
    await fleet.clock.advance(5_000);
    expect(wire.sent.renew).toBe(0);
    await between.release();
    expect(await (await fleet.clock.runUntil(next)).release()).toBe('released');
  });

  it('is followed by one with fences for many when only callers of its process wait, and for those who wait here when others do', async () => {
    for (const [othersWait, fences] of [[false, 256], [true, 20]] as const) {
      const fleet = new Fleet();
      const { locks, wire } = fleet.process();
      const asked: number[] = [];
      const { acquire } = wire;
      wire.acquire = (request) => (asked.push(request.fences), acquire.call(wire, request));
      const first = await locks.acquire('k');
      const waiting = Array.from({ length: 20 }, () => locks.withLock('k', async () => {}));
      await fleet.clock.settle();
      if (othersWait) waiting.push(fleet.process().locks.withLock('k', async () => {}));
      await fleet.clock.settle();
      await first.release();
      await fleet.clock.runUntil(Promise.all(waiting));
      expect(asked.slice(0, 2)).toEqual([1, fences]);
    }
  });
});
