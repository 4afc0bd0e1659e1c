import { describe, expect, it } from '@jest/globals';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { AdoptOptions } from '../../../lib/core/port/lock-options.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, besideHolder, Fleet, eventsOf, gate, type Wire } from '../../support/locks.js';

describe('The callers of one process that want one lock', () => {
  it('tell each that they wait, also those that ask nothing of the store themselves', async () => {
    const { fleet, locks, wire } = alone();
    const told = eventsOf(locks);
    const lease = await locks.acquire('k');
    const waiting = [1, 2, 3].map(() => locks.acquire('k').then((next) => next.release()));
    await fleet.clock.settle();
    expect([told.map(({ type }) => type), wire.sent.acquire]).toEqual([['granted', 'waiting', 'waiting', 'waiting'], 1]);
    await lease.release();
    await fleet.clock.runUntil(Promise.all(waiting));
    expect(told.filter(({ type }) => type === 'waiting')).toHaveLength(3);
  });

  it('keep the place of the first in the queue of the store when one behind it, who wants other terms, gives up', async () => {
    const { fleet, locks, wire, other } = await besideHolder('k');
    const [first, second] = [locks.acquire('k', { leaseMs: 5_000 }), locks.acquire('k', { leaseMs: 9_000, waitMs: 100 })];
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
    wire.slowMs = 100;
    expect([await Promise.race([two.release(), fleet.clock.settle()]), wire.sent.release]).toEqual(['lost', 1]);
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

  it('does not leave its place to a call that owes another minHoldMs', async () => {
    const { fleet, locks, other } = await besideHolder('k');
    const impatient = expect(locks.acquire('k', { waitMs: 300 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    const owing = locks.acquire('k', { minHoldMs: 4_000 });
    await fleet.clock.advance(400);
    await Promise.all([impatient, other.release()]);
    expect([await (await fleet.clock.runUntil(owing)).release(), await locks.isLocked('k')]).toEqual(['released', true]);
  });

  it('asks at once for one with other terms behind 64 in a row, of which the last left the lease unused', async () => {
    const { fleet, locks } = alone();
    const since = fleet.clock.now();
    const calls = Array.from({ length: 65 }, (_, n) => locks.withLock('k', { leaseMs: n < 64 ? 30_000 : 5_000 }, async () => {}));
    await fleet.clock.runUntil(Promise.all(calls));
    expect(fleet.clock.now()).toBe(since);
  });

  it.each([undefined, 3])('gives the lock back when the last who wait give up while it pauses for timers and sockets (permits: %s)', async (permits) => {
    const { fleet, locks } = alone();
    const stop = new AbortController();
    let served = 0;
    const calls = Array.from({ length: 100 }, () => locks.withLock('k', { permits, signal: stop.signal }, async () => void (served += 1)));
    void calls[63]!.then(() => stop.abort('enough'));
    const outcomes = await fleet.clock.runUntil(Promise.allSettled(calls));
    await fleet.clock.settle();
    const rejected = outcomes.filter(({ status }) => status === 'rejected').length;
    expect([served + rejected, rejected > 30, await locks.isLocked('k')]).toEqual([100, true, false]);
  });
});

describe('A lock that was taken with minHoldMs for work that never began', () => {
  it('goes to the next caller of its process at once: nobody owes the minHoldMs', async () => {
    const { fleet, locks, other } = await besideHolder('b');
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

/** A lease that ends in the same step of the store in which the next caller is granted: what its holder is told. */
describe('A turn that is passed on through the store', () => {
  /** One who holds, and a caller of the same process who will not be handed the lease. */
  async function holdsBeforeAnother(fleet: Fleet) {
    const { locks, wire } = fleet.process({ handOn: 1 });
    const hold = await locks.acquire('k');
    const next = locks.acquire('k');
    await fleet.clock.settle();
    return { hold, next, wire };
  }

  it.each(['released', 'lost'])('is told as %s, which it is when the store had forgotten it', async (outcome) => {
    const fleet = new Fleet();
    const { hold, next, wire } = await holdsBeforeAnother(fleet);
    wire.lostWakes.add('lost');
    if (outcome === 'lost') await fleet.process().locks.forceRelease('k');
    expect(await hold.release()).toBe(outcome);
    expect(wire.sent).toMatchObject({ acquire: 2, release: 0 });
    expect(await (await next).release()).toBe('released');
  });

  it('is unknown when no answer comes, and the next is served all the same', async () => {
    const fleet = new Fleet();
    const { hold, next, wire } = await holdsBeforeAnother(fleet);
    wire.deaf = true;
    expect(await hold.release()).toBe('unknown');
    wire.deaf = false;
    expect(await (await fleet.clock.runUntil(next)).release()).toBe('released');
  });

  it('is given back by a command of its own before a call that waits for replicas, whose answer comes only after these', async () => {
    const { fleet, locks, wire } = alone({ handOn: 1 });
    const { acquire } = wire;
    const replaced: (string | undefined)[] = [];
    wire.acquire = (request) => (replaced.push(request.replaces), acquire.call(wire, { ...request, minReplicas: 0 }));
    const hold = await locks.acquire('k', { minReplicas: 1 });
    const next = locks.acquire('k', { minReplicas: 1 });
    await fleet.clock.settle();
    expect([await hold.release(), wire.sent.release, replaced]).toEqual(['released', 1, [undefined, undefined]]);
    await next;
  });

  it('is told as released also when the next caller gives up before the answer, which says so', async () => {
    const { fleet, locks, wire } = alone({ handOn: 1 });
    const hold = await locks.acquire('k');
    const abort = new AbortController();
    const next = expect(locks.acquire('k', { signal: abort.signal })).rejects.toBe('mine');
    const { acquire } = wire;
    const answer = gate();
    wire.acquire = (request) => answer.promise.then(() => acquire.call(wire, request));
    const released = hold.release();
    abort.abort('mine');
    await next;
    answer.open();
    expect(await released).toBe('released');
    await fleet.clock.settle();
    expect(await locks.isLocked('k')).toBe(false);
  });
});

describe('A grant beside a lease that had ended in the store, although no answer said so', () => {
  it('goes to the caller for whom it was asked: the store is asked for nothing more', async () => {
    const { fleet, locks, wire } = alone();
    wire.lostWakes.add('lost');
    const reader = await locks.acquire('k', { mode: 'read' });
    const writer = locks.acquire('k');
    await fleet.clock.advance(5);
    await fleet.process().locks.forceRelease('k');
    const lease = await fleet.clock.runUntil(writer);
    expect(reader.signal.aborted).toBe(true);
    expect(await lease.release()).toBe('released');
    expect(await reader.release()).toBe('lost');
    await fleet.clock.advance(100);
    expect(wire.sent).toMatchObject({ acquire: 2, release: 2 });
  });

  it('S1: ends every lease of this process that it excludes, also those to which nobody is admitted any more', async () => {
    const { fleet, locks, wire } = alone();
    wire.lostWakes.add('lost');
    const readers = [await locks.acquire('k', { mode: 'read', leaseMs: 30_000 }), await locks.acquire('k', { mode: 'read', leaseMs: 20_000 })];
    const writer = locks.acquire('k');
    await fleet.clock.advance(5);
    await fleet.process().locks.forceRelease('k');
    await using held = await fleet.clock.runUntil(writer);
    expect(held.remainingMs).toBeGreaterThan(0);
    expect(readers.map(({ signal, remainingMs }) => [signal.aborted, remainingMs])).toEqual([[true, 0], [true, 0]]);
  });
});

/** The leases that a process made of tickets: whose they are, how long they last, and what is left of them when they have ended. */

/** A process that has `k` by a ticket, and the id under which the store knows it. */
async function adopted(options: AdoptOptions = {}): Promise<{ fleet: Fleet; wire: Wire; lease: Lease; id: string }> {
  const { fleet, locks, wire } = alone();
  const lease = await locks.adopt(await (await fleet.process().locks.acquire('k')).handOff(), options);
  return { fleet, wire, lease, id: (await fleet.store.inspect('k')).holders[0]!.id };
}

describe('A lease that was made of a ticket', () => {
  it('is renewed no longer than its maxHoldMs, so that others are let in though its work hangs', async () => {
    const { fleet, lease } = await adopted({ leaseMs: 500, maxHoldMs: 1_200 });
    await fleet.clock.advance(1_000);
    lease.assertHeld();
    const since = fleet.clock.now();
    const next = await fleet.clock.runUntil(fleet.process().locks.acquire('k'));
    expect(fleet.clock.now() - since).toBeLessThanOrEqual(210);
    expect([lease.signal.aborted, await lease.release()]).toEqual([true, 'lost']);
    expect(await next.release()).toBe('released');
  });

  it.each(['release', 'handOff'] as const)('is over with its %s: it is renewed no more, and a grant that the store makes for it later is given back', async (how) => {
    const { fleet, wire, lease, id } = await adopted({ leaseMs: 3_000 });
    await fleet.clock.advance(100);
    await lease[how]();
    const { release, renew } = wire.sent;
    await fleet.clock.advance(10_000);
    expect(wire.sent.renew).toBe(renew);
    fleet.wake({ kind: 'stray', key: 'k', id });
    await fleet.clock.settle();
    expect(wire.sent.release).toBe(release + 1);
  });
});

/** Calls with waitMs 0: who is served at once, who is refused, and at how many commands. */
describe('A call that does not want to wait', () => {
  it.each([['read', 'write'], ['write', 'read'], ['write', 'write']] as const)('to %s is refused at once, without a command, while its process has the lock to %s', async (mode, held) => {
    const { fleet, locks, wire } = alone();
    await locks.acquire('k', { mode: held });
    const [since, { commands }] = [fleet.clock.now(), wire];
    expect(await fleet.clock.runUntil(locks.tryAcquire('k', { mode }))).toBeNull();
    await expect(locks.tryAcquire('k', { mode, signal: AbortSignal.abort('mine') })).rejects.toBe('mine');
    expect([fleet.clock.now(), wire.commands]).toEqual([since, commands]);
  });

  it('is told that a call of its process holds the lock, and not when that is lost or another process holds it', async () => {
    const fleet = new Fleet();
    const [here, there] = [fleet.process(), fleet.process()];
    const tries = async (locks: LockService, key = 'k', options = {}): Promise<string> => String(await fleet.clock.runUntil(locks.acquire(key, { waitMs: 0, ...options }).then(() => 'taken', (error: Error) => error.message)));
    await here.locks.acquire('k', { leaseMs: 1_000 });
    expect(await tries(here.locks)).toBe("Lock 'k' is busy: a call in this process holds it. It was not taken; try again later.");
    expect(await tries(there.locks)).toBe("Lock 'k' is busy. It was not taken; try again later.");
    expect(there.wire.sent).toMatchObject({ acquire: 1, release: 0 });
    here.wire.cut = true;
    await fleet.clock.advance(1_000);
    expect(await tries(here.locks)).not.toContain('a call in this process');
    here.wire.cut = false;
    await here.locks.acquire('of a permit', { permits: 1 });
    expect(await tries(here.locks, 'of a permit', { permits: 1 })).toBe("Lock 'of a permit' is busy. It was not taken; try again later.");
  });

  it.each(['read', 'write'] as const)('to %s is refused at once, without a command, while a reader of its process waits for the store', async (mode) => {
    const { fleet, locks, wire, other } = await besideHolder('k');
    const reader = locks.acquire('k', { mode: 'read' });
    await fleet.clock.settle();
    const [since, { commands }] = [fleet.clock.now(), wire];
    await expect(fleet.clock.runUntil(locks.acquire('k', { mode, waitMs: 0 }))).rejects.toThrow('is busy. It was not taken');
    expect([fleet.clock.now(), wire.commands]).toEqual([since, commands]);
    await other.release();
    await (await fleet.clock.runUntil(reader)).release();
  });

  it('to read beside a reader whose answer is on its way is refused with that answer, when the other begins to wait', async () => {
    const { fleet, locks, wire, other } = await besideHolder('k');
    wire.slowMs = 100;
    const reader = locks.acquire('k', { mode: 'read' });
    await fleet.clock.settle();
    const since = fleet.clock.now();
    expect(await fleet.clock.runUntil(locks.tryAcquire('k', { mode: 'read' }))).toBeNull();
    expect([fleet.clock.now() - since, wire.sent.acquire]).toEqual([100, 1]);
    wire.slowMs = 0;
    await other.release();
    await (await fleet.clock.runUntil(reader)).release();
  });

  it('does not stand in line behind those who wait while a crowd of its process pauses for timers and sockets', async () => {
    const { fleet, locks } = alone();
    const tried: Promise<Lease | null>[] = [];
    const crowd = Array.from({ length: 200 }, () => locks.withLock('k', async () => {}).then(() => void tried.push(locks.tryAcquire('k'))));
    await fleet.clock.runUntil(Promise.all(crowd));
    const got = await fleet.clock.runUntil(Promise.all(tried.slice(0, 190)));
    expect(got).toEqual(got.map(() => null));
    for (const lease of await fleet.clock.runUntil(Promise.all(tried.slice(190)))) await lease?.release();
  });

  it('and is refused before it waited does not end the process that another call keeps alive, and hears its own signal no more', async () => {
    const fleet = new Fleet();
    const held = await fleet.process().locks.acquire('k');
    await fleet.clock.advance(100);
    const open = new Set<object>();
    fleet.clock.keepAlive = () => {
      const wait = {};
      open.add(wait);
      return () => void open.delete(wait);
    };
    const { locks } = fleet.process();
    const work = gate();
    const waiting = locks.withLock('k', () => work.promise);
    await fleet.clock.advance(100);
    expect(open.size).toBe(1);
    const { signal } = new AbortController();
    for (let n = 0; n < 3; n++) expect(await locks.tryAcquire('k', { signal })).toBeNull();
    await fleet.clock.advance(100);
    expect(open.size).toBe(1);
    await held.release();
    await fleet.clock.advance(100);
    expect(open.size).toBe(0);
    work.open();
    await waiting;
  });
});
