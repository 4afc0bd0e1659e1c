import { describe, expect, it } from '@jest/globals';
import { Fleet, gate } from '../support/locks.js';

async function passed(fleet: Fleet, ms: number): Promise<void> {
  await fleet.clock.advance(ms);
}

describe('A read lease', () => {
  it('that was followed by a newer one is given back by its last reader, also in the middle of a crowd', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const options = { mode: 'read', leaseMs: 6_000 } as const;
    const old = await locks.acquire('k', options);
    await passed(fleet, 1_200);
    const crowd = Array.from({ length: 100 }, () => locks.acquire('k', options));
    void crowd[0]!.then(() => old.release());
    const readers = await fleet.clock.runUntil(Promise.all(crowd));
    await fleet.clock.runUntil(Promise.all(readers.map((lease) => lease.release())));
    await fleet.clock.settle();
    expect(await locks.isLocked('k')).toBe(false);
  });

  it('that is stronger than its readers asked for has one fence for all of them', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const { acquire } = wire;
    wire.acquire = async (request) => {
      const outcome = await acquire.call(wire, request);
      return outcome.kind === 'granted' ? { ...outcome, grant: { ...outcome.grant, mode: 'write' } } : outcome;
    };
    const readers = await fleet.clock.runUntil(Promise.all([1, 2, 3].map(() => locks.acquire('k', { mode: 'read' }))));
    expect(new Set(readers.map(({ fence }) => fence)).size).toBe(1);
    await fleet.clock.runUntil(Promise.all(readers.map((lease) => lease.release())));
  });

  it('is not kept for a hung reader with maxHoldMs when the others have gone', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const hung = await locks.acquire('k', { mode: 'read', leaseMs: 1_000, maxHoldMs: 700 });
    const other = await locks.acquire('k', { mode: 'read', leaseMs: 1_000 });
    await passed(fleet, 1_000);
    expect(hung.signal.aborted).toBe(true);
    other.assertHeld();
    expect(await other.release()).toBe('released');
    const writer = await fleet.clock.runUntil(fleet.process().locks.acquire('k', { waitMs: 2_000 }));
    await writer.release();
    expect(await hung.release()).toBe('lost');
  });

  it('serves all readers that do not want to wait', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const leases = await Promise.all([1, 2, 3].map(() => locks.tryAcquire('k', { mode: 'read' })));
    expect(leases.every((lease) => lease !== null)).toBe(true);
    expect(wire.sent.acquire).toBe(1);
    await passed(fleet, 1_300);
    const late = await locks.tryAcquire('k', { mode: 'read' });
    expect(late).not.toBeNull();
    await Promise.all([...leases, late].map((lease) => lease?.release()));
    const writer = await fleet.process().locks.acquire('k');
    expect(await Promise.all([1, 2].map(() => locks.tryAcquire('k', { mode: 'read' })))).toEqual([null, null]);
    await writer.release();
  });
});

describe('A place in the queue', () => {
  it('is not taken over by a caller who asks for another minHoldMs', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const other = await fleet.process().locks.acquire('k');
    const impatient = expect(locks.acquire('k', { waitMs: 300 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    const owing = locks.acquire('k', { minHoldMs: 4_000 });
    await passed(fleet, 400);
    await impatient;
    await other.release();
    await (await fleet.clock.runUntil(owing)).release();
    expect(await locks.isLocked('k')).toBe(true);
  });
});

describe('A caller that gives up while its grant is on the way', () => {
  it('leaves nothing of its minHoldMs behind', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const { acquire } = wire;
    const answer = gate();
    wire.acquire = async (request) => {
      const outcome = await acquire.call(wire, request);
      await answer.promise;
      return outcome;
    };
    const abort = new AbortController();
    const refused = expect(locks.acquire('k', { minHoldMs: 20_000, signal: abort.signal })).rejects.toBe('never mind');
    await fleet.clock.settle();
    expect(await locks.isLocked('k')).toBe(true);
    abort.abort('never mind');
    await refused;
    answer.open();
    await fleet.clock.settle();
    expect(await locks.isLocked('k')).toBe(false);
  });
});

describe('A request for several locks', () => {
  it('that is aborted between two of them ends at once with the reason', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const other = await fleet.process().locks.acquire('b');
    const first = await locks.acquire('a');
    const abort = new AbortController();
    const several = expect(locks.acquire(['a', 'b'], { signal: abort.signal, waitMs: Infinity })).rejects.toBe('mine');
    void first.release();
    abort.abort('mine');
    await several;
    await other.release();
    await fleet.clock.settle();
    expect(await locks.isLocked('a')).toBe(false);
  });

  it('that got some of them but not all leaves nothing of their minHoldMs behind', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const other = await fleet.process().locks.acquire('b');
    const refused = expect(locks.acquire(['a', 'b'], { minHoldMs: 20_000, waitMs: 300 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    const next = locks.acquire('a', { waitMs: 400 });
    await passed(fleet, 301);
    await refused;
    await (await fleet.clock.runUntil(next, 50)).release();
    expect(await locks.tryAcquire(['a', 'b'], { minHoldMs: 20_000 })).toBeNull();
    expect(await locks.isLocked('a')).toBe(false);
    await other.release();
  });

  it('counts nobody in that it did not let in', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const other = await fleet.process().locks.acquire('b');
    await locks.withLock('a', async (lease) => {
      expect(await locks.tryAcquire(['a', 'b'])).toBeNull();
      expect(lease.holdCount).toBe(1);
    });
    await other.release();
  });

  it('needs a list', async () => {
    const { locks } = new Fleet().process();
    await expect(locks.acquire(undefined as never)).rejects.toMatchObject({ code: 'LOCK_KEY' });
  });
});

describe('A turn that is passed on through the store', () => {
  /** One who holds, and a caller of the same process who will not be handed the lease. */
  async function holdsBeforeAnother(fleet: Fleet) {
    const { locks, wire } = fleet.process({ handOn: 1 });
    const hold = await locks.acquire('k');
    const next = locks.acquire('k');
    await fleet.clock.settle();
    return { hold, next, wire };
  }

  it('is released', async () => {
    const fleet = new Fleet();
    const { hold, next, wire } = await holdsBeforeAnother(fleet);
    expect(await hold.release()).toBe('released');
    expect(wire.sent).toMatchObject({ acquire: 2, release: 0 });
    expect(await (await next).release()).toBe('released');
  });

  it('is told as lost when the store had forgotten it', async () => {
    const fleet = new Fleet();
    const { hold, next, wire } = await holdsBeforeAnother(fleet);
    wire.lostWakes.add('lost');
    await fleet.process().locks.forceRelease('k');
    expect(await hold.release()).toBe('lost');
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

  it('is told also when the next caller gives up before the answer', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process({ handOn: 1 });
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
    await released;
    await fleet.clock.settle();
    expect(await locks.isLocked('k')).toBe(false);
  });
});

describe('A lease', () => {
  it('is not held any more from the moment its release began', async () => {
    const { locks } = new Fleet().process();
    const lease = await locks.acquire('k');
    const releasing = lease.release();
    expect(() => lease.assertHeld()).toThrow(/released/);
    expect(() => lease.run(() => {})).toThrow(/released/);
    expect(lease.remainingMs).toBe(0);
    expect(await releasing).toBe('released');
  });

  it('is not handed on to a caller who may hold the lock for less than is left of it', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const first = await locks.acquire('k', { leaseMs: 8_000 });
    const hung = locks.acquire('k', { leaseMs: 8_000, maxHoldMs: 700 });
    await fleet.clock.settle();
    await first.release();
    await fleet.clock.runUntil(hung);
    const since = fleet.clock.now();
    const next = await fleet.clock.runUntil(fleet.process().locks.acquire('k'));
    expect(fleet.clock.now() - since).toBeLessThanOrEqual(710);
    await next.release();
  });
});
