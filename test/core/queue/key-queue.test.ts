import { describe, expect, it } from '@jest/globals';
import type { LockEvent } from '../../../lib/core/port/lock-events.js';
import { alone } from '../../support/locks.js';

describe('The callers of one process that want one lock', () => {
  it('tell each that they wait, also those that ask nothing of the store themselves', async () => {
    const { fleet, locks, wire } = alone();
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
    const { fleet, locks, wire } = alone();
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
});

describe('A lease that was lost by the clock of its process', () => {
  it('is released for those who wait when the last of its callers leaves it, and not before', async () => {
    const { fleet, locks, wire } = alone();
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
    const { fleet, locks, wire } = alone();
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
    const { fleet, locks } = alone();
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

describe('A lock that was taken with minHoldMs for work that never began', () => {
  it('goes to the next caller of its process at once: nobody owes the minHoldMs', async () => {
    const { fleet, locks } = alone();
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
    const { fleet, locks, wire } = alone();
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
});
