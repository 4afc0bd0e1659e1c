/** Readers in the queue of one process: who shares a lease, who enters with whom, and who gives the lease back. */
import { describe, expect, it } from '@jest/globals';
import { HAND_ON_WINDOW_MS } from '../../../lib/core/lease/store-lease.js';
import { pause } from '../../../lib/core/port/clock.js';
import { LockTimeoutError } from '../../../lib/core/port/errors.js';
import type { LockOptions, WithLockOptions } from '../../../lib/core/port/lock-options.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, besideHolder, Fleet, gate } from '../../support/locks.js';

describe('The callers of one process', () => {
  it('read together on one lease, and stop joining it when a writer waits anywhere', async () => {
    const { fleet, locks, wire } = alone();
    const held = gate();
    const order: string[] = [];
    const readers = Array.from({ length: 5 }, () => locks.withLock('k', { mode: 'read' }, () => held.promise));
    await fleet.clock.settle();
    expect(wire.sent.acquire).toBe(1);
    const writer = fleet.process().locks.withLock('k', async () => void order.push('writer'));
    await fleet.clock.settle();
    const late = locks.withLock('k', { mode: 'read' }, async () => void order.push('late reader'));
    await fleet.clock.settle();
    held.open();
    await fleet.clock.runUntil(Promise.all([...readers, writer, late]));
    expect(order).toEqual(['writer', 'late reader']);
  });

  describe('that read', () => {
    /** A writer holds the lock; readers wait in one process, and then a writer in another. Gives who was served, in order. */
    async function afterAWriter(begin: (locks: LockService, read: (name: string, options?: LockOptions) => void, order: string[]) => void): Promise<string[]> {
      const [fleet, order, calls] = [new Fleet(), [] as string[], [] as Promise<unknown>[]];
      const { locks } = fleet.process();
      const first = await fleet.process().locks.acquire('k');
      const work = (name: string): Promise<unknown> => (order.push(name), pause(fleet.clock, 100));
      const read = (name: string, options: LockOptions = {}): void => void calls.push(locks.withLock('k', { ...options, mode: 'read' }, () => work(name)));
      begin(locks, read, order);
      await fleet.clock.settle();
      calls.push(fleet.process().locks.withLock('k', () => work('the writer elsewhere')));
      await fleet.clock.settle();
      await first.release();
      await fleet.clock.settle();
      read('a late reader');
      await fleet.clock.runUntil(Promise.all(calls));
      expect(locks.core!.queues.size).toBe(0);
      return order;
    }

    it.each([5, 300])('and waited when a phase of reading began all enter with it (%i of them), and who comes later waits behind the writer that waits elsewhere', async (count) => {
      const names = Array.from({ length: count }, (_, n) => `reader ${n}`);
      const order = await afterAWriter((_, read) => names.forEach((name) => read(name)));
      expect(order).toEqual([...names, 'the writer elsewhere', 'a late reader']);
    });

    it('enter with the phase though a writer of their own process waits among them', async () => {
      const order = await afterAWriter((locks, read, served) => {
        read('reader 1');
        void locks.withLock('k', async () => void served.push('the writer here'));
        read('reader 2');
      });
      expect(order.slice(0, 2)).toEqual(['reader 1', 'reader 2']);
      expect(order[2]).toMatch(/^the writer/);
      expect(order.slice(2).sort()).toEqual(['a late reader', 'the writer elsewhere', 'the writer here']);
    });

    it('enter with the phase, together with those of another process, though a writer of their own process stands before them', async () => {
      const [fleet, order, calls] = [new Fleet(), [] as string[], [] as Promise<unknown>[]];
      const [first, here, there] = [fleet.process(), fleet.process(), fleet.process()].map(({ locks }) => locks) as [LockService, LockService, LockService];
      const lease = await first.acquire('k');
      const call = async (locks: LockService, name: string, mode: 'read' | 'write'): Promise<void> => {
        const work = (): Promise<unknown> => (order.push(name), pause(fleet.clock, 100));
        calls.push(locks.withLock('k', { mode }, work));
        await fleet.clock.settle();
      };
      await call(here, 'the writer', 'write');
      const readers = [1, 2, 3, 4, 5].flatMap((n) => [`here ${n}`, `there ${n}`]);
      for (const name of readers) await call(name.startsWith('here') ? here : there, name, 'read');
      await lease.release();
      await fleet.clock.runUntil(Promise.all(calls));
      expect(order.slice(0, -1).sort()).toEqual(readers.sort());
      expect(order.at(-1)).toBe('the writer');
    });

    it('enter with the phase also when they can share no lease', async () => {
      const terms: LockOptions[] = [{ leaseMs: 5_000 }, { renew: false }, { leaseMs: 5_000 }, { minHoldMs: 200 }, { minHoldMs: 200 }, { maxHoldMs: 1_000 }, { owner: 'o' }, {}];
      const order = await afterAWriter((_, read) => terms.forEach((options) => read(JSON.stringify(options), options)));
      const writerAt = order.indexOf('the writer elsewhere');
      expect(order.slice(0, writerAt).sort()).toEqual(terms.map((options) => JSON.stringify(options)).sort());
      expect(order.slice(writerAt)).toEqual(['the writer elsewhere', 'a late reader']);
    });

    it('enter with the phase though a writer of their own process came before them, while its first reader was let in', async () => {
      const [fleet, order, calls] = [new Fleet(), [] as string[], [] as Promise<unknown>[]];
      const [here, there, elsewhere] = [fleet.process(), fleet.process(), fleet.process()].map(({ locks }) => locks) as [LockService, LockService, LockService];
      const call = (locks: LockService, name: string, mode: 'read' | 'write'): void => {
        const work = (): Promise<unknown> => (order.push(name), pause(fleet.clock, 100));
        calls.push(locks.withLock('k', { mode }, work));
      };
      call(here, 'reader 1', 'read');
      call(here, 'the writer here', 'write');
      call(here, 'reader 2', 'read');
      call(elsewhere, 'the writer elsewhere', 'write');
      call(there, 'reader 3', 'read');
      await fleet.clock.runUntil(Promise.all(calls));
      expect(order.slice(0, 2)).toEqual(['reader 1', 'the writer elsewhere']);
      expect(order.slice(2, 4).sort()).toEqual(['reader 2', 'reader 3']);
      expect(order[4]).toBe('the writer here');
    });

    it('enter with the phase though the writer of their own process asks with the request of one that gave up at once', async () => {
      const [fleet, order, calls] = [new Fleet(), [] as string[], [] as Promise<unknown>[]];
      const [first, here, there] = [fleet.process(), fleet.process(), fleet.process()].map(({ locks }) => locks) as [LockService, LockService, LockService];
      const lease = await first.acquire('k');
      const work = (name: string) => (): Promise<unknown> => (order.push(name), pause(fleet.clock, 100));
      const call = (locks: LockService, name: string, options: LockOptions): void => void calls.push(locks.withLock('k', options, work(name)).catch(() => {}));
      const stop = new AbortController();
      call(here, 'reader who leaves', { mode: 'read', signal: stop.signal });
      call(here, 'writer who leaves', { signal: stop.signal });
      await fleet.clock.settle();
      call(here, 'the writer', {});
      call(here, 'reader here', { mode: 'read' });
      call(there, 'reader there', { mode: 'read' });
      await fleet.clock.settle();
      stop.abort();
      await fleet.clock.settle();
      await lease.release();
      await fleet.clock.runUntil(Promise.all(calls));
      expect([order.slice(0, 2).sort(), order[2]]).toEqual([['reader here', 'reader there'], 'the writer']);
    });

    it('wait behind a writer of their process that came before them, when the lock was free', async () => {
      const { fleet, locks } = alone();
      const order: string[] = [];
      const call = (name: string, mode: 'read' | 'write'): Promise<void> => locks.withLock('k', { mode }, async () => void order.push(name));
      await fleet.clock.runUntil(Promise.all([call('reader 1', 'read'), call('writer', 'write'), call('reader 2', 'read')]));
      expect(order).toEqual(['reader 1', 'writer', 'reader 2']);
    });
  });

  it('that wait behind a reader for another writer are let in at once when that writer gives up', async () => {
    const { fleet, locks } = alone();
    const held = gate();
    const reader = locks.withLock('k', { mode: 'read' }, () => held.promise);
    await fleet.clock.settle();
    const writer = expect(fleet.process().locks.withLock('k', { waitMs: 300 }, async () => {})).rejects.toThrow(LockTimeoutError);
    await fleet.clock.settle();
    const entered = gate();
    const late = locks.withLock('k', { mode: 'read' }, async () => entered.open());
    await fleet.clock.advance(301);
    await writer;
    await fleet.clock.settle();
    await late;
    held.open();
    await fleet.clock.runUntil(reader);
  });

  it('that want to read get in beside calls that outlived a write hold, as readers elsewhere do', async () => {
    const { fleet, locks } = alone();
    const [works, readsInside] = [gate(), gate()];
    let inside: Promise<void> | undefined;
    const outlived = locks.withLock('k', async () => {
      inside = locks.withLock('k', { mode: 'read' }, () => readsInside.promise);
      await works.promise;
    });
    const reader = locks.withLock('k', { mode: 'read' }, async () => 'read beside it');
    await fleet.clock.settle();
    works.open();
    await outlived;
    expect(await fleet.clock.runUntil(reader)).toBe('read beside it');
    readsInside.open();
    await inside;
  });
});

describe('A read lease', () => {
  it('that was followed by a newer one is given back by its last reader, also in the middle of a crowd', async () => {
    const { fleet, locks } = alone();
    const options = { mode: 'read', leaseMs: 6_000 } as const;
    const old = await locks.acquire('k', options);
    await fleet.clock.advance(1_200);
    const crowd = Array.from({ length: 100 }, () => locks.acquire('k', options));
    void crowd[0]!.then(() => old.release());
    const readers = await fleet.clock.runUntil(Promise.all(crowd));
    await fleet.clock.runUntil(Promise.all(readers.map((lease) => lease.release())));
    await fleet.clock.settle();
    expect(await locks.isLocked('k')).toBe(false);
  });

  it('is not kept for a hung reader with maxHoldMs when the others have gone', async () => {
    const { fleet, locks } = alone();
    const hung = await locks.acquire('k', { mode: 'read', leaseMs: 1_000, maxHoldMs: 700 });
    const other = await locks.acquire('k', { mode: 'read', leaseMs: 1_000 });
    await fleet.clock.advance(1_000);
    expect(hung.signal.aborted).toBe(true);
    other.assertHeld();
    expect(await other.release()).toBe('released');
    const writer = await fleet.clock.runUntil(fleet.process().locks.acquire('k', { waitMs: 2_000 }));
    await writer.release();
    expect(await hung.release()).toBe('lost');
  });

  it('serves all readers that do not want to wait', async () => {
    const { fleet, locks, wire } = alone();
    const leases = await Promise.all([1, 2, 3].map(() => locks.tryAcquire('k', { mode: 'read' })));
    expect(leases.every((lease) => lease !== null)).toBe(true);
    expect(wire.sent.acquire).toBe(1);
    await fleet.clock.advance(1_300);
    const late = await locks.tryAcquire('k', { mode: 'read' });
    expect(late).not.toBeNull();
    await Promise.all([...leases, late].map((lease) => lease?.release()));
    await fleet.process().locks.acquire('k');
    expect(await Promise.all([1, 2].map(() => locks.tryAcquire('k', { mode: 'read' })))).toEqual([null, null]);
  });
});

/** Many callers of one process that wait for one lock: who comes in with whom, in bursts of which size, and who has a queue of its own. */
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
    expect(served).toBe(count);
    expect(most).toBeLessThanOrEqual(64);
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
  it.each<[LockOptions, string]>([[{ mode: 'read' }, '01234'], [{}, '10234']])('passes nobody that came before it, and only readers pass it, whose phase follows on a writer: behind %j', async (first, expected) => {
    const { fleet, locks, other } = await besideHolder('k');
    const order: string[] = [];
    const terms: LockOptions[] = [first, { mode: 'read' }, { leaseMs: 5_000 }, {}, { leaseMs: 5_000 }];
    const calls = terms.map((options, n) => locks.withLock('k', options, async () => void order.push(`${n}`)));
    await fleet.clock.settle();
    await other.release();
    await fleet.clock.runUntil(Promise.all(calls));
    expect([order.join(''), locks.core!.queues.size]).toEqual([expected, 0]);
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

  it('share a request where they can: readers with the terms of another that stands aside ask with it', async () => {
    const { fleet, locks, wire, other } = await besideHolder('k');
    const readers = [6_000, 5_000, 5_000, 5_000].map((leaseMs) => locks.acquire('k', { mode: 'read', leaseMs }));
    await fleet.clock.settle();
    expect(wire.sent.acquire).toBe(2);
    const since = fleet.clock.now();
    await other.release();
    await fleet.clock.runUntil(Promise.all(readers));
    expect(fleet.clock.now()).toBe(since);
  });
});

/** Callers behind a writer of their own process: when they take a place in the store's queue, and what that costs. */

/** A process whose writer holds the lock, and does something `inside`, and two others. `calls` notes who is served when. */
async function stage(inside: (locks: LockService, pending: Promise<unknown>[]) => void = () => {}) {
  const fleet = new Fleet();
  const [here, there, elsewhere] = [fleet.process(), fleet.process(), fleet.process()];
  const work = gate();
  const served: string[] = [];
  const pending: Promise<unknown>[] = [];
  pending.push(here.locks.withLock('k', () => {
    inside(here.locks, pending);
    return work.promise;
  }));
  await fleet.clock.settle();
  const calls = (locks: LockService, name: string, options: WithLockOptions = {}): void => {
    pending.push(locks.withLock('k', options, () => (served.push(name), pause(fleet.clock, 10))));
  };
  const ends = async (): Promise<readonly string[]> => {
    work.open();
    await fleet.clock.runUntil(Promise.all(pending));
    return served;
  };
  return { clock: fleet.clock, here, there, elsewhere, work, pending, served, calls, ends };
}

describe('A caller behind a writer of its own process', () => {
  it('comes before one that came later elsewhere, once the writer has held the lock for the time in which it could hand it on', async () => {
    const { clock, here, there, calls, ends } = await stage();
    calls(here.locks, 'first');
    await clock.advance(HAND_ON_WINDOW_MS);
    calls(there.locks, 'second');
    await clock.settle();
    calls(here.locks, 'third');
    expect((await there.locks.inspect('k')).waiters).toHaveLength(2);
    expect(await ends()).toEqual(['first', 'second', 'third']);
  });

  it('costs no command before that time is over', async () => {
    const { clock, here, calls, ends } = await stage();
    const before = here.wire.sent.acquire;
    calls(here.locks, 'first');
    await clock.advance(HAND_ON_WINDOW_MS - 1);
    expect(here.wire.sent.acquire).toBe(before);
    await clock.advance(1);
    expect(here.wire.sent.acquire).toBe(before + 1);
    await ends();
  });

  it('asks nothing of a store that keeps no order, until the writer has ended', async () => {
    const { clock, here, calls, ends } = await stage();
    Object.assign(here.wire, { capabilities: { ...here.wire.capabilities, queue: false } });
    const before = here.wire.sent.acquire;
    calls(here.locks, 'first');
    await clock.advance(1_000);
    expect(here.wire.sent.acquire).toBe(before);
    expect(await ends()).toEqual(['first']);
  });

  it('reads together with those elsewhere when the writer has ended, before a writer that came later', async () => {
    const { clock, here, there, elsewhere, calls, ends } = await stage();
    calls(here.locks, 'reads', { mode: 'read' });
    await clock.advance(HAND_ON_WINDOW_MS);
    calls(there.locks, 'writes');
    await clock.settle();
    calls(elsewhere.locks, 'reads too', { mode: 'read' });
    await clock.settle();
    expect((await ends()).at(-1)).toBe('writes');
  });

  it('that gives up takes its place away, and nothing is left to be looked at', async () => {
    const { clock, here, there, ends } = await stage();
    const gaveUp = expect(here.locks.acquire('k', { waitMs: 2 * HAND_ON_WINDOW_MS })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    await clock.advance(HAND_ON_WINDOW_MS);
    expect((await there.locks.inspect('k')).waiters).toHaveLength(1);
    await clock.advance(2 * HAND_ON_WINDOW_MS);
    await gaveUp;
    expect((await there.locks.inspect('k')).waiters).toHaveLength(0);
    await ends();
    await clock.advance(1_000);
    expect(clock.pendingTimers).toBe(0);
  });

  it('reads at once beside what is left of that writer, when it has been downgraded', async () => {
    const outlives = gate();
    const { clock, here, work, pending, served, calls } = await stage((locks, reading) => void reading.push(locks.withLock('k', { mode: 'read' }, () => outlives.promise)));
    calls(here.locks, 'reads', { mode: 'read' });
    work.open();
    await clock.advance(HAND_ON_WINDOW_MS / 2);
    expect(served).toEqual(['reads']);
    outlives.open();
    await clock.runUntil(Promise.all(pending));
  });

  it('is served at once by a writer that ends before that time', async () => {
    const { clock, here, calls, ends } = await stage();
    for (const name of ['first', 'second']) calls(here.locks, name);
    await clock.advance(HAND_ON_WINDOW_MS / 2);
    const before = here.wire.commands;
    expect(await ends()).toEqual(['first', 'second']);
    // One more request for fences, and the release of the last lease.
    expect(here.wire.commands - before).toBeLessThanOrEqual(2);
    expect(here.locks.core!.schedule.size).toBe(0);
  });
});
