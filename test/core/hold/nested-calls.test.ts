/** Calls made inside a hold of the same key, and what becomes of those that outlive it. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it, jest } from '@jest/globals';
import { pause } from '../../../lib/core/port/clock.js';
import { LockLostError, LockUsageError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { LockMode, LockOptions } from '../../../lib/core/port/lock-options.js';
import { alone, Fleet, gate } from '../../support/locks.js';

describe('A call inside a hold of the same key', () => {
  it('runs without a command to the store, with the same fence', async () => {
    const { locks, wire } = new Fleet().process();
    await locks.withLock('k', async (outer) => {
      const commands = wire.commands;
      await locks.withLock('k', async (inner) => {
        expect(inner.fence).toBe(outer.fence);
        expect(outer.holdCount).toBe(2);
        await locks.withLock('k', { mode: 'read' }, async () => expect(outer.holdCount).toBe(3));
      });
      expect(outer.holdCount).toBe(1);
      expect(wire.commands).toBe(commands);
    });
    expect(wire.sent).toMatchObject({ acquire: 1, release: 1 });
  });

  it('waits for its siblings and never for itself', async () => {
    const { locks } = new Fleet().process();
    let inside = 0;
    let most = 0;
    const sibling = (): Promise<void> =>
      locks.withLock('k', async () => {
        most = Math.max(most, (inside += 1));
        await new Promise((resolve) => setImmediate(resolve));
        await locks.withLock('k', async () => {});
        inside -= 1;
      });
    await locks.withLock('k', () => Promise.all([sibling(), sibling(), sibling()]));
    expect(most).toBe(1);
  });

  it('is told at once that the hold was lost, while it waits for its siblings or when it comes after that', async () => {
    const { fleet, locks } = alone();
    const [goesOn, entered] = [gate(), gate()];
    const outcomes: unknown[] = [];
    const outer = locks.withLock('k', { maxHoldMs: 1_000, onLost: 'ignore' }, async () => {
      const inside = locks.withLock('k', { onLost: 'ignore' }, () => (entered.open(), goesOn.promise));
      await entered.promise;
      const late = (): Promise<unknown> => locks.withLock('k', async () => {}).catch((error: unknown) => outcomes.push(error));
      await Promise.all([inside, late(), pause(fleet.clock, 1_001).then(late), goesOn.promise.then(late)]);
    });
    await fleet.clock.advance(1_001);
    expect(outcomes).toEqual([expect.any(LockLostError), expect.any(LockLostError)]);
    goesOn.open();
    await fleet.clock.runUntil(outer);
    expect(outcomes).toEqual([expect.any(LockLostError), expect.any(LockLostError), expect.any(LockLostError)]);
  });

  it('shares with reading siblings; a writer waits for them, and those behind it for the writer until it gives up', async () => {
    const { fleet, locks } = alone();
    const waiting: unknown[] = [];
    locks.events.subscribe(({ type }) => type === 'waiting' && waiting.push(type));
    const [reads, stop, order] = [gate(), new AbortController(), [] as string[]];
    const call = (name: string, options: LockOptions, work: unknown = 0): Promise<unknown> => locks.withLock('k', options, () => (order.push(name), work));
    await locks.withLock('k', async () => {
      const readers = ['one', 'two'].map((name) => call(name, { mode: 'read' }, reads.promise));
      const impatient = call('impatient', { signal: stop.signal }).catch((reason: unknown) => reason);
      await fleet.clock.settle();
      for (const mode of ['read', 'write'] as const) expect(await locks.tryAcquire('k', { mode })).toBeNull();
      readers.push(call('behind', { mode: 'read' }));
      await fleet.clock.settle();
      expect([order, waiting.length]).toEqual([['one', 'two'], 2]);
      stop.abort('enough');
      expect([await impatient, await readers[2]]).toEqual(['enough', 0]);
      expect(await locks.tryAcquire('k')).toBeNull();
      reads.open();
      await Promise.all([...readers, call('writer', {})]);
    });
    expect(order).toEqual(['one', 'two', 'behind', 'writer']);
  });

  it('that reads leaves the lock closed to other processes when it ends, while its hold goes on', async () => {
    const { fleet, locks, wire } = alone();
    const [one, two] = [gate(), gate()];
    await locks.withLock('k', async () => {
      const reading = [one, two].map(({ promise }) => locks.withLock('k', { mode: 'read' }, () => promise));
      await fleet.clock.settle();
      one.open();
      await reading[0];
      await fleet.clock.settle();
      expect((await locks.inspect('k')).mode).toBe('write');
      two.open();
      await reading[1];
    });
    expect(wire.sent.downgrade).toBe(0);
  });

  it('is refused at once when it would turn reading into writing', async () => {
    const { locks } = new Fleet().process();
    await locks.withLock('k', { mode: 'read' }, () => expect(locks.withLock('k', async () => {})).rejects.toThrow(LockUsageError));
  });

  it('for reading does not become one for writing, though the hold around both is', async () => {
    const { locks } = new Fleet().process();
    await locks.withLock('k', () =>
      locks.withLock('k', { mode: 'read' }, async () => {
        await expect(locks.withLock('k', async () => {})).rejects.toThrow(LockUsageError);
        expect(locks.currentLease('k')?.mode).toBe('read');
        expect(locks.assertLocked('k', 'write').mode).toBe('write');
      }),
    );
  });

  it('asks for the lock anew when the hold is released as its process finds out that it slept, and lost another lock', async () => {
    const { fleet, locks } = alone();
    const [lease, short] = [await locks.acquire('k'), await locks.acquire('short', { leaseMs: 1_000 })];
    short.signal.addEventListener('abort', () => void lease.release());
    const fence = await fleet.clock.runUntil(lease.run(() => (fleet.clock.sleepMachine(5_000), locks.withLock('k', (inner) => inner.fence))));
    expect(fence).toBeGreaterThan(lease.fence);
  });

  it('asks for the lock anew when it was left running and the hold has ended', async () => {
    const { fleet, locks, wire } = alone();
    const ended = gate();
    const { outer, leftover } = await locks.withLock('k', (lease) => ({ outer: lease, leftover: ended.promise.then(() => locks.withLock('k', ({ fence }) => fence)) }));
    ended.open();
    expect(await fleet.clock.runUntil(leftover)).toBeGreaterThan(outer.fence);
    expect(wire.sent.acquire).toBe(2);
  });

  it('waits no longer than it wants to, though the hold ends meanwhile and it goes on waiting outside', async () => {
    const { fleet, locks } = alone();
    const [sibling, ends] = [gate(), gate()];
    let late: Promise<unknown> | undefined;
    const outer = locks.withLock('k', async () => {
      void locks.withLock('k', () => sibling.promise);
      late = expect(locks.withLock('k', { waitMs: 500 }, async () => {})).rejects.toMatchObject({ waitMs: 500 });
      await ends.promise;
    });
    await fleet.clock.advance(300);
    const since = fleet.clock.now() - 300;
    ends.open();
    await outer;
    await fleet.clock.runUntil(late!);
    expect(fleet.clock.now() - since).toBe(500);
    sibling.open();
  });

  it('that waits for a sibling when its hold ends asks for the lock anew, and gets it after the sibling', async () => {
    const { fleet, locks, wire } = alone();
    const sibling = gate();
    const fences: number[] = [];
    let [first, second]: Promise<void>[] = [];
    await locks.withLock('k', async ({ fence }) => {
      fences.push(fence);
      first = locks.withLock('k', async () => sibling.promise);
      second = locks.withLock('k', async (lease) => void fences.push(lease.fence));
      await fleet.clock.settle();
    });
    await fleet.clock.advance(100);
    expect(fences).toHaveLength(1);
    sibling.open();
    await fleet.clock.runUntil(Promise.all([first, second]));
    expect([fences[1]! > fences[0]!, wire.sent.acquire]).toEqual([true, 2]);
  });

  it('that schedules its next run inside itself, and so on for ever, keeps none of the holds before', async () => {
    const { locks } = new Fleet().process();
    const early: WeakRef<Lease>[] = [];
    await new Promise<void>((done, failed) => {
      const job = (runs: number): void => {
        const run = async (lease: Lease): Promise<void> => {
          if (early.length < 3) early.push(new WeakRef(lease));
          // The last one looks while it runs itself.
          if (runs === 0) await collectGarbage().then(done);
          else setImmediate(() => job(runs - 1));
        };
        locks.withLock('job', run).catch(failed);
      };
      job(20);
    });
    expect(early.map((lease) => lease.deref() === undefined)).toEqual([true, true, true]);
  });

  it('that comes while its hold waits for others inside it to end asks for the lock anew, and comes after them', async () => {
    const { fleet, locks, wire } = alone();
    const [work, late] = [gate(), gate()];
    const fences: number[] = [];
    let [leftover, comesLate]: Promise<void>[] = [];
    let inside = true;
    // A hold of another lock goes on around all of them.
    await locks.withLock('around', async () => {
      await locks.withLock('k', async ({ fence }) => {
        fences.push(fence);
        leftover = locks.withLock('k', () => work.promise).then(() => void (inside = false));
        comesLate = late.promise.then(() => locks.withLock('k', async (lease) => void fences.push(lease.fence, Number(inside))));
        await fleet.clock.settle();
      });
      late.open();
      await fleet.clock.advance(100);
      expect(fences).toHaveLength(1);
      work.open();
      await fleet.clock.runUntil(Promise.all([leftover, comesLate]));
    });
    expect([fences[1]! > fences[0]!, fences[2], wire.sent.acquire]).toEqual([true, 0, 3]);
  });

  it('re-enters what acquire took only inside lease.run', async () => {
    const { locks, wire } = new Fleet().process();
    const lease = await locks.acquire('k');
    expect(locks.currentLease('k')).toBeUndefined();
    await lease.run(async () => {
      expect(locks.currentLease('k')?.fence).toBe(lease.fence);
      expect(locks.assertLocked('k').fence).toBe(lease.fence);
      await locks.withLock('k', async () => {});
    });
    expect(wire.sent.acquire).toBe(1);
    expect(() => locks.assertLocked('k')).toThrow(LockUsageError);
    expect(await lease.release()).toBe('released');
    expect(await lease.release()).toBe('released');
  });

  it('re-enters when work that begins only when it is awaited, like a query of an ORM, makes it', async () => {
    const { locks, wire } = new Fleet().process();
    class Query extends Promise<string> {
      override then<A, B>(done?: ((key: string) => A | PromiseLike<A>) | null, failed?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<A | B> {
        return locks.withLock('k', { waitMs: 0 }, async () => locks.assertLocked('k').key).then(done, failed);
      }
    }
    const queries = [new Query(() => {}), { then: Query.prototype.then.bind(undefined) } as unknown as Promise<string>];
    for (const query of queries) await expect(locks.withLock('k', () => query)).resolves.toBe('k');
    expect(wire.sent).toMatchObject({ acquire: 2, release: 2 });
  });

  it('takes part in no hold when it is detached', async () => {
    const { locks } = new Fleet().process();
    await locks.withLock('k', async () => {
      expect(locks.detached(() => locks.currentLease())).toBeUndefined();
      expect(locks.currentLease()?.key).toBe('k');
    });
  });
});

async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  // What a turn of the event loop still refers to is free after it.
  for (let turn = 0; turn < 3; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
  }
}

/** Which holds surround a call when several lock modules of one process have some. */
describe('A call inside holds of two lock modules', () => {
  it('re-enters those of its own module only', async () => {
    const [one, two] = [new Fleet().process(), new Fleet().process()];
    const entered = await one.locks.withLock('k', (outer) =>
      two.locks.withLock('other', () => two.locks.withLock('k', (lease) => {
        expect(outer.holdCount).toBe(1);
        expect(one.locks.currentLease('k')).toBe(outer);
        return lease;
      })));
    expect(two.wire.sent).toMatchObject({ acquire: 2, release: 2 });
    expect(entered.keys).toEqual(['k']);
  });
});

describe('A leadership that is stopped from inside the hold of another lock', () => {
  it('has stopped only when its function has ended', async () => {
    const { fleet, locks } = alone();
    const { promise, open } = gate();
    const leadership = locks.lead('indexer', () => promise);
    await fleet.clock.settle();
    let stopped = false;
    const stopping = locks.withLock('k', () => leadership.stop().then(() => (stopped = true)));
    await fleet.clock.advance(100);
    expect(stopped).toBe(false);
    open();
    await fleet.clock.runUntil(stopping);
  });
});

/** One lock of a hold with the calls inside it: who gets in, when its lease is left, and what its end has to do with the holds around it. */

/** Calls for `k` that outlive the hold in which they were made, each until its gate is opened, in these modes. */
async function outliving(fleet: Fleet, locks: ReturnType<Fleet['process']>['locks'], options: LockOptions, ...modes: readonly LockMode[]) {
  const gates = modes.map(() => gate());
  const calls: Promise<void>[] = [];
  const outer = await locks.withLock('k', options, async (lease) => {
    modes.forEach((mode, n) => calls.push(locks.withLock('k', { mode }, () => gates[n]!.promise)));
    await fleet.clock.settle();
    return lease;
  });
  return { outer, gates, ended: Promise.all(calls) };
}

describe('A lock whose hold has ended while calls go on inside it', () => {
  it('stays taken until the last of them has ended', async () => {
    const { fleet, locks } = alone();
    const { outer, gates: [one, two], ended } = await outliving(fleet, locks, {}, 'read', 'read');
    one!.open();
    await fleet.clock.advance(10);
    outer.assertHeld();
    expect(await fleet.process().locks.tryAcquire('k')).toBeNull();
    two!.open();
    await fleet.clock.runUntil(ended);
    await (await fleet.process().locks.acquire('k', { waitMs: 0 })).release();
  });

  it.each<[string, LockOptions, LockMode, boolean, number]>([
    ['to readers with one command, however many of them go on, also when that gets no answer', {}, 'read', false, 1],
    ['to nobody when one of them writes', {}, 'write', false, 0],
    ['to nobody else when it was for reading', { mode: 'read' }, 'read', false, 0],
    ['to nobody when a hold around it writes', {}, 'read', true, 0],
    ['to nobody when it has an owner, whose other holds write, and come back as writing after a loss of memory (S7)', { owner: 'o' }, 'read', false, 0],
  ])('is opened %s', async (_whom, options, mode, isInside, downgrades) => {
    const { fleet, locks, wire } = alone();
    const heard = jest.fn();
    wire.downgrade = jest.fn(() => ({ then: (_done, failed) => (heard(), failed?.(new Error('no answer'))) }) as Promise<'lost'>);
    const outlive = () => outliving(fleet, locks, options, mode, mode, mode);
    const { gates, ended } = await (isInside ? locks.withLock('k', outlive) : outlive());
    for (const { open } of gates) {
      open();
      await fleet.clock.settle();
    }
    await fleet.clock.runUntil(ended);
    expect([wire.downgrade, heard].map((each) => jest.mocked(each).mock.calls.length)).toEqual([downgrades, downgrades]);
  });

  it('is held for writing by nobody when a reader elsewhere begins (S1)', async () => {
    const { fleet, locks, wire } = alone();
    const { promise, open } = gate();
    let inside!: Promise<void>;
    const lease = await locks.withLock('k', (outer) => {
      inside = locks.withLock('k', { mode: 'read' }, () => promise);
      wire.slowMs = 20;
      return fleet.clock.settle().then(() => outer);
    });
    await fleet.process().locks.withLock('k', { mode: 'read' }, async () => expect(lease.mode).toBe('read'));
    open();
    await fleet.clock.runUntil(inside);
  });

  it('is still bound to the maxHoldMs of its hold', async () => {
    const { fleet, locks } = alone();
    const goesOn = gate();
    let leftover!: Promise<unknown>;
    let inner: Lease | undefined;
    const outer = await locks.acquire('k', { leaseMs: 1_000, maxHoldMs: 3_000 });
    void outer.run(() => (leftover = locks.withLock('k', { onLost: 'ignore' }, (lease) => ((inner = lease), goesOn.promise))));
    await fleet.clock.settle();
    const released = outer.release();
    await fleet.clock.advance(2_900);
    outer.assertHeld();
    expect(outer.remainingMs).toBeGreaterThan(0);
    await fleet.clock.advance(200);
    expect([outer.signal.aborted, inner!.signal.aborted]).toEqual([true, true]);
    goesOn.open();
    await fleet.clock.runUntil(leftover);
    await released;
  });
});

describe('A call inside a hold that was lost', () => {
  it('and whose turn comes only then does not begin and leaves its place, so that the lock is given back at the end of the hold', async () => {
    const { fleet, locks, wire } = alone();
    const other = fleet.process().locks;
    const first = gate();
    let began = false;
    await locks.withLock('k', { leaseMs: 1_000, graceMs: 30_000, onLost: 'ignore' }, async () => {
      const before = locks.withLock('k', { onLost: 'ignore' }, () => first.promise);
      const lost = expect(locks.withLock('k', () => void (began = true))).rejects.toBeInstanceOf(LockLostError);
      await fleet.clock.settle();
      // Nothing is called at the end of its trust: the call finds that out when its turn comes.
      wire.cut = true;
      fleet.clock.block(1_000);
      first.open();
      await before;
      await lost;
      wire.cut = false;
    });
    expect(began).toBe(false);
    await fleet.clock.advance(100);
    await (await other.acquire('k', { waitMs: 0 })).release();
  });
});

describe('A hold inside another one', () => {
  it('that is longer than its maxHoldMs is lost, and the hold around it goes on', async () => {
    const { fleet, locks } = alone();
    const outer = await locks.acquire('k');
    await fleet.clock.advance(500);
    const inner = await outer.run(() => locks.acquire('k', { maxHoldMs: 1_000 }));
    await fleet.clock.advance(999);
    inner.assertHeld();
    await fleet.clock.advance(2);
    expect(inner.signal.aborted).toBe(true);
    outer.assertHeld();
    expect(await inner.release()).toBe('lost');
    expect(await outer.release()).toBe('released');
  });
});

describe('Readers on one lease', () => {
  it('of which the last one hangs keep the lock no longer than a lease behind its maxHoldMs, though another one might have held it for longer', async () => {
    const { fleet, locks } = alone();
    const terms = { mode: 'read', leaseMs: 1_000 } as const;
    const [first, hung] = [await locks.acquire('k', terms), await locks.acquire('k', { ...terms, maxHoldMs: 1_500 })];
    await fleet.clock.advance(100);
    await first.release();
    await fleet.clock.advance(2_500);
    await (await fleet.process().locks.acquire('k', { waitMs: 0 })).release();
    expect(hung.signal.aborted).toBe(true);
  });

  it('know exactly that their maxHoldMs is over, though no timer could run and the lease goes on for others', async () => {
    const { fleet, locks } = alone();
    const terms = { mode: 'read', leaseMs: 8_000 } as const;
    const [goesOn, short] = [gate(), await locks.acquire('k', { ...terms, maxHoldMs: 9_000 })];
    const work = locks.withLock('k', { ...terms, maxHoldMs: 9_000 }, () => goesOn.promise);
    const beside = await locks.acquire('k', terms);
    await fleet.clock.advance(8_900);
    short.assertHeld();
    queueMicrotask(() => fleet.clock.block(100));
    const begun = jest.fn();
    const inside = short.run(() => locks.withLock('k', { mode: 'read' }, begun));
    await expect(inside).rejects.toThrow('it was held longer than maxHoldMs (9000 ms)');
    expect(() => short.assertHeld()).toThrow('it was held longer than maxHoldMs (9000 ms)');
    goesOn.open();
    await expect(work).rejects.toThrow('it was held longer than maxHoldMs (9000 ms)');
    expect([begun.mock.calls.length, await short.release()]).toEqual([0, 'lost']);
    beside.assertHeld();
  });
});
