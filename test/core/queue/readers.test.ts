/** Readers in the queue of one process: who shares a lease, who enters with whom, and who gives the lease back. */
import { describe, expect, it } from '@jest/globals';
import { LockTimeoutError } from '../../../lib/core/port/errors.js';
import type { LockOptions } from '../../../lib/core/port/lock-options.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, Fleet, gate } from '../../support/locks.js';

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
      const fleet = new Fleet();
      const order: string[] = [];
      const calls: Promise<unknown>[] = [];
      const { locks } = fleet.process();
      const first = await fleet.process().locks.acquire('k');
      const work = async (name: string): Promise<void> => {
        order.push(name);
        await new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 100));
      };
      const read = (name: string, options: LockOptions = {}): void => void calls.push(locks.withLock('k', { ...options, mode: 'read' }, () => work(name)));
      begin(locks, read, order);
      await fleet.clock.settle();
      calls.push(fleet.process().locks.withLock('k', () => work('the writer elsewhere')));
      await fleet.clock.settle();
      await first.release();
      await fleet.clock.settle();
      read('a late reader');
      await fleet.clock.runUntil(Promise.all(calls));
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
      const fleet = new Fleet();
      const order: string[] = [];
      const calls: Promise<unknown>[] = [];
      const [first, here, there] = [fleet.process(), fleet.process(), fleet.process()].map(({ locks }) => locks) as [LockService, LockService, LockService];
      const lease = await first.acquire('k');
      const call = async (locks: LockService, name: string, mode: 'read' | 'write'): Promise<void> => {
        const work = (): Promise<void> => new Promise((resolve) => {
          order.push(name);
          fleet.clock.setTimer(resolve, 100);
        });
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
    const writer = await fleet.process().locks.acquire('k');
    expect(await Promise.all([1, 2].map(() => locks.tryAcquire('k', { mode: 'read' })))).toEqual([null, null]);
    await writer.release();
  });
});
