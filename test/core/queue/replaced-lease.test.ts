/** A lease that ends in the same step of the store in which the next caller is granted: what its holder is told. */
import { describe, expect, it } from '@jest/globals';
import { alone, Fleet, gate } from '../../support/locks.js';

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
    await released;
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
