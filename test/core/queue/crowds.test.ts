/** Many callers of one process that wait for one lock: who comes in with whom, in bursts of which size, and who has a queue of its own. */
import { describe, expect, it } from '@jest/globals';
import { LockClosedError } from '../../../lib/core/port/errors.js';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import type { LockEvent } from '../../../lib/core/port/lock-events.js';
import { Fleet, gate, type Wire } from '../../support/locks.js';

/** What the store is asked from now on, in order. */
function askedOf(wire: Wire, before: () => Promise<unknown> = () => Promise.resolve()): AcquireRequest[] {
  const asked: AcquireRequest[] = [];
  const { acquire } = wire;
  wire.acquire = (request) => (asked.push(request), before().then(() => acquire.call(wire, request)));
  return asked;
}

describe('Readers of one process that waited together', () => {
  it.each([65, 300])('(%i of them) come in 64 at a time, with timers and sockets in between', async (count) => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
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

  it('let one more come in without a wait when nobody is left in the line', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const writer = await locks.acquire('k');
    const told: LockEvent[] = [];
    const readers = Array.from({ length: 64 }, () => locks.acquire('k', { mode: 'read' }));
    await fleet.clock.settle();
    locks.events.subscribe((event) => event.type === 'waiting' && told.push(event));
    const late = readers.at(-1)!.then(() => locks.acquire('k', { mode: 'read' }));
    await writer.release();
    const leases = await fleet.clock.runUntil(Promise.all([...readers, late]));
    expect(told).toEqual([]);
    await fleet.clock.runUntil(Promise.all(leases.map((lease) => lease.release())));
  });

  it('all read together though a writer elsewhere begins to wait while they come in, and who comes later waits behind it', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
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
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const other = await fleet.process().locks.acquire('k');
    const order: string[] = [];
    const calls = ['read', 'write', 'write'].map((mode, n) => locks.withLock('k', { mode: mode as 'read' | 'write' }, async () => void order.push(`${n} ${mode}`)));
    await fleet.clock.settle();
    await other.release();
    await fleet.clock.runUntil(Promise.all(calls));
    expect(order).toEqual(['0 read', '1 write', '2 write']);
  });
});

describe('A reader whose question is on its way when its process hears that it may join the lease at hand', () => {
  /** A read lease of which the store has said nothing for a second, so that a second reader asks; then it is renewed. */
  async function renewedWhileAsking() {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const first = await locks.acquire('k', { mode: 'read', leaseMs: 6_000 });
    await fleet.clock.advance(1_200);
    const answer = gate();
    const asked = askedOf(wire, () => answer.promise);
    const second = locks.acquire('k', { mode: 'read', leaseMs: 6_000 });
    await fleet.clock.advance(800);
    expect([asked.length, wire.sent.renew]).toEqual([1, 1]);
    return { fleet, locks, wire, first, second, asked, answer };
  }

  it('joins it with the next that comes, and the question is taken back before its answer', async () => {
    const { fleet, locks, wire, first, second, asked, answer } = await renewedWhileAsking();
    const third = locks.acquire('k', { mode: 'read', leaseMs: 6_000 });
    const leases = await fleet.clock.runUntil(Promise.all([second, third]));
    expect(new Set([first, ...leases].map(({ fence }) => fence)).size).toBe(1);
    await fleet.clock.settle();
    expect([asked.length, wire.sent.release]).toEqual([1, 1]);
    answer.open();
    await fleet.clock.settle();
    expect((await fleet.store.inspect('k')).holders).toHaveLength(1);
    await fleet.clock.runUntil(Promise.all([first, ...leases].map((lease) => lease.release())));
  });

  it('leaves the next question to the writer that comes then, with the terms of that one', async () => {
    const { fleet, locks, first, second, asked, answer } = await renewedWhileAsking();
    const writer = locks.acquire('k', { leaseMs: 7_000 });
    const lease = await fleet.clock.runUntil(second);
    expect(asked.map(({ mode, leaseMs }) => [mode, leaseMs])).toEqual([['read', 6_000], ['write', 7_000]]);
    let began = false;
    void writer.then(() => (began = true));
    answer.open();
    await fleet.clock.settle();
    expect(began).toBe(false);
    await fleet.clock.runUntil(Promise.all([first.release(), lease.release()]));
    expect(await (await fleet.clock.runUntil(writer)).release()).toBe('released');
    expect(fleet.store.size).toBe(0);
  });
});

describe('Calls that do not wait for each other in their process', () => {
  it.each([
    ['callers of two owners', [{ mode: 'read', owner: 'a' }, { mode: 'read', owner: 'b' }]],
    ['a reader and an owner', [{ mode: 'read' }, { mode: 'read', owner: 'a' }]],
  ] as const)('(%s) each hear at once that the lock was taken away from them', async (_what, [one, two]) => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
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
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const taken = await locks.acquire('k', { mode: 'read', owner: 'a' });
    const kept = await locks.acquire('k', { mode: 'read', owner: 'b' });
    await fleet.process().locks.forceRelease('k', { fence: taken.fence });
    await fleet.clock.settle();
    expect([taken.signal.aborted, kept.signal.aborted]).toEqual([true, false]);
    expect([await taken.release(), await kept.release()]).toEqual(['lost', 'released']);
  });

  it('are those of one owner: one that has the lock lets in the next past a writer of the process that waits', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const first = await locks.acquire('k', { owner: 'a' });
    const writer = locks.acquire('k');
    await fleet.clock.settle();
    const second = await fleet.clock.runUntil(locks.acquire('k', { owner: 'a', waitMs: 1_000 }));
    for (const lease of [second, first]) expect(await lease.release()).toBe('released');
    expect(await (await fleet.clock.runUntil(writer)).release()).toBe('released');
  });

  it('share a request where they can: readers with the terms of another that stands aside ask with it', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
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

  it('are all refused when the process shuts down: those of an owner and those for a permit too', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const other = fleet.process().locks;
    const held = [await other.acquire('k'), await other.acquire('permits', { permits: 1 })];
    const waiting = [locks.acquire('k'), locks.acquire('k', { owner: 'a' }), locks.acquire('permits', { permits: 1 })].map((call) => expect(call).rejects.toBeInstanceOf(LockClosedError));
    await fleet.clock.settle();
    const since = fleet.clock.now();
    locks.prepareShutdown();
    await Promise.all(waiting);
    expect(fleet.clock.now()).toBe(since);
    await Promise.all(held.map((lease) => lease.release()));
  });

  it('leave nothing in the memory of their process', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const queue = (locks as unknown as { calls: { queue: { size: number } } }).calls.queue;
    const leases = [await locks.acquire('k', { mode: 'read' }), await locks.acquire('k', { mode: 'read', owner: 'a' }), await locks.acquire('k', { mode: 'read', owner: 'b' })];
    const adopted = await locks.adopt(await (await fleet.process().locks.acquire('other')).handOff());
    const permit = await locks.acquire('permits', { permits: 2 });
    expect(queue.size).toBe(4);
    for (const lease of [...leases, adopted, permit]) await lease.release();
    expect(queue.size).toBe(0);
  });
});
