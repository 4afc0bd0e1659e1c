/** The callers of one process in line for the permits of a lock: which request stands for whom, and what becomes of it. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, Fleet, gate } from '../../support/locks.js';
import { answering } from '../../support/answering.js';

const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, index) => make(index));

/** The numbers of the calls that were told to wait. */
function waitsOf(locks: LockService): (number | undefined)[] {
  const told: (number | undefined)[] = [];
  locks.events.subscribe(({ type, call }) => type === 'waiting' && told.push(call));
  return told;
}

describe('A caller in line for a permit', () => {
  it('is served by the request of another that is answered first, and the other waits on in its stead', async () => {
    const { fleet, locks, wire } = alone();
    const held = await fleet.process().locks.acquire('k', { permits: 2 });
    const answer = gate();
    answering(wire, (n, ask) => (n === 0 ? answer.promise.then(ask) : ask()));
    const told = waitsOf(locks);
    const first = locks.acquire('k', { permits: 2 });
    const second = locks.acquire('k', { permits: 2 });
    const lease = await fleet.clock.runUntil(first);
    expect(told).toHaveLength(1);
    answer.open();
    await fleet.clock.settle();
    expect(told).toHaveLength(1);
    await held.release();
    await (await fleet.clock.runUntil(second)).release();
    await lease.release();
  });

  it('that does not want to wait is refused at once when its permit went to one before it and the other request has to wait', async () => {
    const { fleet, locks, wire } = alone();
    const held = await fleet.process().locks.acquire('k', { permits: 2 });
    const answer = gate();
    answering(wire, (n, ask) => (n === 0 ? answer.promise.then(ask) : ask()));
    const first = locks.acquire('k', { permits: 2 });
    const tried = locks.tryAcquire('k', { permits: 2 });
    const last = locks.acquire('k', { permits: 2 });
    const lease = await fleet.clock.runUntil(first);
    const since = fleet.clock.now();
    answer.open();
    expect([await fleet.clock.runUntil(tried), fleet.clock.now() - since]).toEqual([null, 0]);
    await held.release();
    await (await fleet.clock.runUntil(last)).release();
    await lease.release();
  });

  it('that does not want to wait asks once more when the question on which it relied has failed', async () => {
    const { fleet, locks, wire } = alone();
    const answer = gate();
    answering(wire, async (n, ask) => {
      if (n < 2) await answer.promise;
      if (n === 0) throw new LockStoreError('refused', { retryable: false });
      return ask();
    });
    const stop = new AbortController();
    const patient = expect(locks.acquire('k', { permits: 2, signal: stop.signal })).rejects.toBe('enough');
    const tried = locks.tryAcquire('k', { permits: 2 });
    await fleet.clock.settle();
    stop.abort('enough');
    await patient;
    answer.open();
    const lease = await fleet.clock.runUntil(tried);
    expect(await lease?.release()).toBe('released');
  });

  it('inherits the older place in the queue of the store when one before it gives up, and is told that it waits', async () => {
    const { fleet, locks } = alone();
    const held = await Promise.all(many(2, () => fleet.process().locks.acquire('k', { permits: 2 })));
    const order: string[] = [];
    const impatient = expect(locks.acquire('k', { permits: 2, waitMs: 100 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    await fleet.clock.settle();
    const elsewhere = fleet.process().locks.withLock('k', { permits: 2 }, async () => void order.push('elsewhere'));
    await fleet.clock.settle();
    const here = locks.withLock('k', { permits: 2 }, async () => void order.push('here'));
    await fleet.clock.advance(200);
    await impatient;
    await held[0]!.release();
    await fleet.clock.runUntil(Promise.all([elsewhere, here]));
    expect(order).toEqual(['here', 'elsewhere']);
    await held[1]!.release();
  });

  it('takes a new place when its process was silent for so long that its place was given up', async () => {
    const fleet = new Fleet();
    const held = await fleet.process().locks.acquire('k', { permits: 1 });
    const { locks, wire } = fleet.process();
    const waiting = locks.acquire('k', { permits: 1, waitMs: 60_000 });
    await fleet.clock.settle();
    wire.cut = true;
    await fleet.clock.advance(4_000);
    await held.release();
    wire.cut = false;
    expect(await (await fleet.clock.runUntil(waiting)).release()).toBe('released');
  });
});

describe('A permit', () => {
  it('that was lost by the clock of its process is released for those who wait', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { permits: 2, leaseMs: 2_000 });
    wire.cut = true;
    await fleet.clock.advance(2_000);
    wire.cut = false;
    expect([lease.signal.aborted, await lease.release(), wire.sent.release]).toEqual([true, 'lost', 1]);
  });

  it('is handed to the next caller of its process with one command, and given back when nobody here may have it, also while others ask', async () => {
    const { fleet, locks, wire } = alone();
    const held = await fleet.process().locks.acquire('k', { permits: 2 });
    const first = await locks.acquire('k', { permits: 2 });
    const second = locks.acquire('k', { permits: 2 });
    const third = locks.acquire('k', { permits: 2 });
    await fleet.clock.settle();
    const { acquire } = wire.sent;
    await first.release();
    const lease = await fleet.clock.runUntil(second);
    expect(wire.sent).toMatchObject({ acquire: acquire + 1, release: 0 });
    await held.release();
    for (const each of [lease, await fleet.clock.runUntil(third)]) expect(await each.release()).toBe('released');
    expect(fleet.store.size).toBe(0);
  });
});
