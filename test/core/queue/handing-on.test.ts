import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { LockTimeoutError } from '../../../lib/core/port/errors.js';
import { alone, Fleet, gate } from '../../support/locks.js';
import { Turns } from '../../support/turns.js';

describe('The callers of one process', () => {
  it('exclude each other, and every one is served in turn, with a tenth of a command each', async () => {
    const { fleet, locks, wire } = alone();
    const turns = new Turns(fleet, 2_000);
    await fleet.clock.runUntil(Promise.all(Array.from({ length: 64 }, (_, caller) => turns.take(`${caller}`, locks))));
    expect(turns.counts).toHaveLength(64);
    expect(Math.min(...turns.counts)).toBeGreaterThanOrEqual(31);
    expect(Math.max(...turns.counts)).toBeLessThanOrEqual(32);
    expect(wire.commands / 2_000).toBeLessThanOrEqual(0.1);
  });

  it.each([undefined, 2])('let timers and sockets in between them, after 64 of them at the latest (permits: %s)', async (permits) => {
    const { fleet, locks } = alone();
    let [served, seen, most] = [0, 0, 0];
    const look = (): void => {
      most = Math.max(most, served - seen);
      seen = served;
      if (served < 1_000) setImmediate(look);
    };
    const calls = Array.from({ length: 1_000 }, () => locks.withLock('k', { permits, waitMs: Infinity }, async () => void (served += 1)));
    setImmediate(look);
    await fleet.clock.runUntil(Promise.all(calls));
    // The 64 of one burst, and the one that the store's answer begins with.
    expect(most).toBeLessThanOrEqual(64 + (permits ?? 1));
    expect(fleet.store.size).toBe(0);
  });

  it.each([
    { handOn: 16, most: 0.25 },
    { handOn: 1, most: 1.1 },
  ])('share fairly with three other processes at $most commands a turn when handOn is $handOn', async ({ handOn, most }) => {
    const fleet = new Fleet();
    const processes = [1, 2, 3, 4].map(() => fleet.process({ handOn }));
    const turns = new Turns(fleet, 4_000);
    await fleet.clock.runUntil(Promise.all(processes.flatMap(({ locks }, process) => Array.from({ length: 8 }, () => turns.take(`${process}`, locks)))));
    expect(turns.counts).toHaveLength(4);
    expect(Math.max(...turns.counts) / Math.min(...turns.counts)).toBeLessThanOrEqual(1.2);
    const commands = processes.reduce((sum, { wire }) => sum + wire.sent.acquire + wire.sent.release, 0);
    expect(commands / 4_000).toBeLessThanOrEqual(most);
  });

  it('do not start on a lease that was lost while they queued, and fences go on rising', async () => {
    const { fleet, locks, wire } = alone();
    const work = gate();
    const started: number[] = [];
    let lostFence = 0;
    const holder = locks.withLock('k', { leaseMs: 1_000, onLost: 'ignore' }, async (lease) => {
      lostFence = lease.fence;
      await work.promise;
    });
    await fleet.clock.settle();
    const callers = Array.from({ length: 10 }, () =>
      locks.withLock('k', { leaseMs: 1_000, waitMs: 60_000 }, async (lease) => {
        expect(wire.cut).toBe(false);
        lease.assertHeld();
        started.push(lease.fence);
      }),
    );
    wire.cut = true;
    await fleet.clock.advance(5_000);
    work.open();
    await fleet.clock.runUntil(holder);
    expect(started).toEqual([]);
    wire.cut = false;
    await fleet.clock.runUntil(Promise.all(callers));
    expect(started).toHaveLength(10);
    expect(started).toEqual([...started].sort((a, b) => a - b));
    expect(started[0]).toBeGreaterThan(lostFence);
  });

  it('yield to another process within the stated bound though the message that it waits was lost', async () => {
    const fleet = new Fleet();
    const busy = fleet.process();
    busy.wire.lostWakes.add('contended');
    let stop = false;
    const callers = Array.from({ length: 8 }, async () => {
      while (!stop) await busy.locks.withLock('k', { waitMs: Infinity }, () => new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 40)));
    });
    await fleet.clock.advance(100);
    const since = fleet.clock.now();
    await fleet.clock.runUntil(fleet.process().locks.withLock('k', async () => {}));
    // A second without news, the turn that runs, and one round of asking.
    expect(fleet.clock.now() - since).toBeLessThanOrEqual(1_000 + 2 * 40);
    stop = true;
    await fleet.clock.runUntil(Promise.all(callers));
  });

  it('who read yield to another process though the message that it waits came before the answer to their request', async () => {
    const fleet = new Fleet();
    const busy = fleet.process();
    busy.wire.slowMs = 15;
    let stop = false;
    const callers = Array.from({ length: 4 }, async () => {
      while (!stop) await busy.locks.withLock('k', { mode: 'read', waitMs: Infinity }, () => new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 2)));
    });
    await fleet.clock.advance(5);
    const since = fleet.clock.now();
    await fleet.clock.runUntil(fleet.process().locks.withLock('k', async () => {}));
    // The answer, the 50 ms in which callers may follow each other, and the answer to the release.
    expect(fleet.clock.now() - since).toBeLessThanOrEqual(15 + 50 + 2 + 15);
    stop = true;
    await fleet.clock.runUntil(Promise.all(callers));
  });

  it('that give up cost nobody else the place in the queue', async () => {
    const fleet = new Fleet();
    const other = fleet.process();
    const { locks } = fleet.process();
    const held = gate();
    const holder = other.locks.withLock('k', () => held.promise);
    await fleet.clock.settle();
    const order: string[] = [];
    const impatient = locks.withLock('k', { waitMs: 200 }, async () => void order.push('impatient'));
    const refused = expect(impatient).rejects.toThrow(LockTimeoutError);
    const patient = locks.withLock('k', async () => void order.push('patient'));
    await fleet.clock.advance(100);
    const later = fleet.process().locks.withLock('k', async () => void order.push('later'));
    await fleet.clock.advance(200);
    await refused;
    held.open();
    await fleet.clock.runUntil(Promise.all([holder, patient, later]));
    expect(order).toEqual(['patient', 'later']);
  });

  it('of which a hundred share a signal give it one listener, and none when they have gone', async () => {
    const { fleet, locks } = alone();
    const abort = new AbortController();
    const listeners = (): number => getEventListeners(abort.signal, 'abort').length;
    const held = gate();
    const holder = locks.withLock('k', () => held.promise);
    await fleet.clock.settle();
    const served = Array.from({ length: 50 }, () => locks.withLock('k', { signal: abort.signal, waitMs: Infinity }, async () => {}));
    await fleet.clock.settle();
    expect(listeners()).toBe(1);
    held.open();
    await fleet.clock.runUntil(Promise.all([holder, ...served]));
    expect(listeners()).toBe(0);

    const next = gate();
    const again = locks.withLock('k', () => next.promise);
    await fleet.clock.settle();
    const keys = Array.from({ length: 50 }, (_, at) => (at % 2 === 0 ? 'k' : [`a${at}`, 'k']));
    const cancelled = Promise.allSettled(keys.map((key) => locks.acquire(key, { signal: abort.signal, waitMs: Infinity })));
    await fleet.clock.settle();
    expect(listeners()).toBe(1);
    abort.abort('over');
    for (const outcome of await fleet.clock.runUntil(cancelled)) expect(outcome).toEqual({ status: 'rejected', reason: 'over' });
    expect(listeners()).toBe(0);
    next.open();
    await fleet.clock.runUntil(again);
  });

  it('do not follow a writer whose lease was downgraded beside readers elsewhere', async () => {
    const { fleet, locks, wire } = alone();
    const elsewhere = fleet.process().locks;
    const [works, readsInside, readsElsewhere] = [gate(), gate(), gate()];
    const events: string[] = [];
    let inside: Promise<void> | undefined;
    const first = locks.withLock('k', async () => {});
    const outlived = locks.withLock('k', async () => {
      inside = locks.withLock('k', { mode: 'read' }, () => readsInside.promise);
      await works.promise;
    });
    const follower = locks.withLock('k', async () => void events.push('the writer began'));
    await fleet.clock.settle();
    const reader = elsewhere.withLock('k', { mode: 'read' }, async () => {
      await readsElsewhere.promise;
      events.push('the reader ended');
    });
    await fleet.clock.settle();
    // The follower's turn comes while the answer to the downgrade is on its way.
    wire.slowMs = 20;
    works.open();
    await Promise.all([first, outlived]);
    readsInside.open();
    await inside;
    await fleet.clock.settle();
    readsElsewhere.open();
    await fleet.clock.runUntil(Promise.all([reader, follower]));
    expect(events).toEqual(['the reader ended', 'the writer began']);
  });

  it('do not follow a writer whose lease was downgraded while the queue rests after 64 of them', async () => {
    const { fleet, locks } = alone();
    const calls = Array.from({ length: 63 }, () => locks.withLock('k', async () => {}));
    const outlived = locks.withLock('k', async () => void locks.withLock('k', { mode: 'read' }, async () => {}));
    const next = locks.withLock('k', async ({ mode }) => mode);
    await fleet.clock.runUntil(Promise.all([...calls, outlived, next]));
    expect(await next).toBe('write');
  });

  it('leave no entry, no timer and no key behind', async () => {
    const { fleet, locks } = alone();
    await fleet.clock.runUntil(Promise.all(Array.from({ length: 5_000 }, (_, n) => locks.withLock(`k:${n}`, async () => {}))));
    await fleet.clock.advance(20);
    expect([fleet.clock.pendingTimers, locks.core!.queues.size, locks.core!.queues['all']()]).toEqual([0, 0, []]);
    for await (const state of locks.list()) throw new Error(`${state.key} was left`);
  });
});

/** How many fences a process reserves with a lease of a lock: one for each call that is likely to follow on it. */
describe('The fences that a process asks for', () => {
  /** Calls that hold the lock one after another, and how many fences each of their requests asked for. */
  async function asked(fleet: Fleet, process: ReturnType<Fleet['process']>, calls: number, options = {}): Promise<number[]> {
    const fences: number[] = [];
    const { acquire } = process.wire;
    process.wire.acquire = (request) => (fences.push(request.fences), acquire.call(process.wire, request));
    await fleet.clock.runUntil(Promise.all(Array.from({ length: calls }, () => process.locks.withLock('k', options, async () => {}))));
    process.wire.acquire = acquire;
    return fences;
  }

  it('are one where nobody follows: for a single call, with handOn 1, for readers, for permits, and for who owes minHoldMs', async () => {
    const fleet = new Fleet();
    for (const [handOn, calls, options] of [[16, 1, {}], [1, 3, {}], [16, 3, { mode: 'read', renew: false }], [16, 3, { permits: 1 }], [16, 3, { minHoldMs: 1 }]] as const) {
      expect(new Set(await asked(fleet, fleet.process({ handOn }), calls, options))).toEqual(new Set([1]));
    }
  });

  it('are as many as may follow each other while others wait, or as many as wait here, and at most 256', async () => {
    for (const [here, expected] of [[3, 16], [64, 63], [300, 256]] as const) {
      const fleet = new Fleet();
      const [process, work] = [fleet.process(), gate()];
      const first = process.locks.withLock('k', () => work.promise);
      await fleet.clock.settle();
      const elsewhere = fleet.process().locks.withLock('k', async () => {});
      await fleet.clock.settle();
      const fences = asked(fleet, process, here - 1);
      await fleet.clock.settle();
      work.open();
      await fleet.clock.runUntil(Promise.all([first, elsewhere]));
      expect((await fences)[0]).toBe(expected);
    }
  });

  it('are many only after as many were used: unused ones would run ahead of the clock', async () => {
    const fleet = new Fleet();
    const fences = await asked(fleet, fleet.process(), 12_000);
    expect(fences).toEqual([1, 256, 1_024, 4_096, 4_096, 4_096]);
  });
});
