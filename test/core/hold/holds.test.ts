import { describe, expect, it } from '@jest/globals';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { LockLostError, LockUsageError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import { Fleet, gate } from '../../support/locks.js';

describe('A lease as JSON', () => {
  it('says which locks it holds, with which fences and for how long, and nothing of the library behind it', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process({ leaseMs: 9_000 });
    const lease = await locks.acquire(['a', 'b']);
    await fleet.clock.advance(1_000);
    expect(JSON.parse(JSON.stringify({ lease }))).toEqual({
      lease: {
        key: 'a', keys: ['a', 'b'], mode: 'write', fences: { a: lease.fences.get('a'), b: lease.fences.get('b') },
        holdCount: 1, heldMs: 1_000, remainingMs: 8_000,
      },
    });
    await lease.release();
  });
});

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

  it('shares with reading siblings', async () => {
    const { locks } = new Fleet().process();
    const both = gate();
    let inside = 0;
    const reader = (): Promise<void> =>
      locks.withLock('k', { mode: 'read' }, async () => {
        if ((inside += 1) === 2) both.open();
        await both.promise;
      });
    await locks.withLock('k', () => Promise.all([reader(), reader()]));
    expect(inside).toBe(2);
  });

  it('is refused at once when it would turn reading into writing', async () => {
    const { locks } = new Fleet().process();
    await locks.withLock('k', { mode: 'read' }, async () => {
      await expect(locks.withLock('k', async () => {})).rejects.toThrow(LockUsageError);
    });
  });

  it('may enter the locks of one hold one inside the other, in any order', async () => {
    const { locks, wire } = new Fleet().process();
    await locks.withLock(['a', 'b'], () => locks.withLock('b', () => locks.withLock('a', () => locks.withLock(['a', 'b'], async () => {}))));
    expect(wire.sent).toMatchObject({ acquire: 2, release: 2 });
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

  it('asks for the lock anew when it was left running and the hold has ended', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const ended = gate();
    let leftover!: Promise<void>;
    let outerFence = 0;
    await locks.withLock('k', async (outer) => {
      outerFence = outer.fence;
      leftover = ended.promise.then(() => locks.withLock('k', async (lease) => expect(lease.fence).toBeGreaterThan(outerFence)));
    });
    ended.open();
    await fleet.clock.runUntil(leftover);
    expect(wire.sent.acquire).toBe(2);
  });

  it('waits no longer than it wants to, though the hold ends meanwhile and it goes on waiting outside', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
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

  it('that outlives the hold keeps the lease until it ends', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const work = gate();
    let leftover!: Promise<void>;
    await locks.withLock('k', async () => {
      leftover = locks.withLock('k', () => work.promise);
    });
    expect(await locks.tryAcquire('k')).toBeNull();
    work.open();
    await leftover;
    await fleet.clock.settle();
    const lease = await locks.tryAcquire('k');
    expect(lease).not.toBeNull();
    await lease!.release();
  });

  it('that only reads and outlives a write hold lets other readers in', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const other = fleet.process();
    const work = gate();
    const waiting = gate<Promise<void>>();
    let leftover!: Promise<void>;
    await locks.withLock('k', async () => {
      leftover = locks.withLock('k', { mode: 'read' }, () => work.promise);
      waiting.open(other.locks.withLock('k', { mode: 'read' }, async () => {}));
      await fleet.clock.settle();
    });
    await fleet.clock.runUntil((await waiting.promise) as never);
    expect(await other.locks.isLocked('k', 'read')).toBe(true);
    work.open();
    await fleet.clock.runUntil(leftover);
    await fleet.clock.settle();
    expect(await other.locks.isLocked('k')).toBe(false);
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

  it('takes part in no hold when it is detached', async () => {
    const { locks } = new Fleet().process();
    await locks.withLock('k', async () => {
      expect(locks.detached(() => locks.currentLease())).toBeUndefined();
      expect(locks.currentLease()?.key).toBe('k');
    });
  });
});

describe('A hold', () => {
  it('goes on for many leases while the watchdog renews it', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const held = locks.withLock('k', { leaseMs: 300 }, async (lease) => {
      await new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 1_500));
      expect(lease.signal.aborted).toBe(false);
      lease.assertHeld();
      expect(await lease.verify()).toBe(true);
    });
    await fleet.clock.runUntil(held);
  });

  it('is told that its lease is lost at the end of trust, though the store is silent', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const lease = await locks.acquire('k', { leaseMs: 1_000 });
    wire.cut = true;
    const since = fleet.clock.now();
    let abortedAfter = 0;
    lease.signal.addEventListener('abort', () => (abortedAfter = fleet.clock.now() - since));
    await fleet.clock.advance(2_000);
    expect(abortedAfter).toBeGreaterThan(0);
    expect(abortedAfter).toBeLessThanOrEqual(1_000);
    expect(lease.signal.reason).toBeInstanceOf(LockLostError);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(await lease.release()).toBe('lost');
  });

  it('knows exactly by assertHeld that its lease is over though no timer could run', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const lease = await locks.acquire('k', { leaseMs: 1_000 });
    fleet.clock.block(1_001);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(lease.signal.aborted).toBe(true);
    expect(await lease.release()).toBe('lost');
  });

  it('is lost when the machine slept for longer than its lease', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const lease = await locks.acquire('k', { leaseMs: 5_000 });
    fleet.clock.sleepMachine(6_000);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
  });

  it('is not begun on an answer that was asked for before the machine slept: the store is asked again', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    wire.slowMs = 100;
    const asked = locks.acquire('k', { leaseMs: 5_000 });
    await fleet.clock.advance(50);
    fleet.clock.sleepMachine(6_000);
    await fleet.clock.runUntil(asked);
    expect(wire.sent.acquire).toBe(2);
  });

  it('is not begun on a message that is counted from before the machine slept: the store is asked', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const other = await fleet.process().locks.acquire('k');
    const asked = locks.acquire('k');
    await fleet.clock.settle();
    fleet.clock.sleepMachine(6_000);
    await other.release();
    await fleet.clock.runUntil(asked);
    expect(wire.sent.acquire).toBe(2);
  });

  it('is renewed once more when the machine slept while a renewal was on its way', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const lease = await locks.acquire('k', { leaseMs: 6_000 });
    wire.slowMs = 100;
    while (wire.sent.renew === 0) await fleet.clock.advance(10);
    fleet.clock.sleepMachine(2_000);
    await fleet.clock.advance(100);
    expect(lease.remainingMs).toBeLessThan(4_100);
    await fleet.clock.advance(100);
    expect(wire.sent.renew).toBe(2);
    expect(lease.remainingMs).toBeGreaterThan(5_500);
  });

  it('is renewed at once when the wall clock jumps, and not lost', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const lease = await locks.acquire('k', { leaseMs: 3_000 });
    await fleet.clock.advance(100);
    fleet.clock.stepWall(3_600_000);
    await fleet.clock.advance(1_000);
    lease.assertHeld();
    expect(wire.sent.renew).toBeGreaterThanOrEqual(1);
    expect(await lease.release()).toBe('released');
  });

  it('with a fixed lease ends with it', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const lease = await locks.acquire('k', { leaseMs: 500, renew: false });
    await fleet.clock.advance(400);
    await lease.renew(1_000);
    await fleet.clock.advance(900);
    lease.assertHeld();
    await fleet.clock.advance(200);
    expect(lease.signal.aborted).toBe(true);
    expect(wire.sent.renew).toBe(1);
  });

  it('longer than maxHoldMs is lost though it could be renewed, and the next one gets in', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const hung = await locks.acquire('k', { leaseMs: 1_000, maxHoldMs: 2_500 });
    const next = locks.acquire('k', { leaseMs: 1_000 });
    await fleet.clock.advance(2_400);
    hung.assertHeld();
    await fleet.clock.advance(101);
    expect(hung.signal.reason).toBeInstanceOf(LockLostError);
    expect(hung.signal.reason).toHaveProperty('message', expect.stringContaining('held longer than maxHoldMs'));
    const lease = await fleet.clock.runUntil(next);
    expect(lease.fence).toBeGreaterThan(hung.fence);
    expect(await hung.release()).toBe('lost');
    lease.assertHeld();
    await lease.release();
  });

  it('that ended in time is released, though maxHoldMs ends before the answer to its release', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const work = locks.withLock('k', { maxHoldMs: 2_500 }, async () => {
      await new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 2_450));
      wire.slowMs = 200;
      return 'done';
    });
    await expect(fleet.clock.runUntil(work)).resolves.toBe('done');
    wire.slowMs = 0;
    const lease = await locks.acquire('k', { maxHoldMs: 1_000 });
    await fleet.clock.advance(900);
    wire.slowMs = 200;
    expect(await fleet.clock.runUntil(lease.release())).toBe('released');
    expect(lease.signal.aborted).toBe(false);
  });

  it('shorter than minHoldMs resolves at once and leaves the lock taken that long', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const since = fleet.clock.now();
    await locks.withLock('k', { minHoldMs: 2_000 }, async () => {});
    expect(fleet.clock.now()).toBe(since);
    expect(await locks.tryAcquire('k')).toBeNull();
    const lease = await fleet.clock.runUntil(locks.acquire('k'));
    expect(fleet.clock.now() - since).toBeGreaterThanOrEqual(2_000);
    await lease.release();
  });

  it('whose work ended after its lease was lost rejects with what the work came to', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const late = (onLost: 'throw' | 'ignore', fail: boolean): Promise<string> =>
      locks.withLock('k', { leaseMs: 500, onLost, waitMs: 10_000 }, async () => {
        wire.cut = true;
        await new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 1_000));
        wire.cut = false;
        if (fail) throw new Error('disk full');
        return 'done';
      });
    await fleet.clock.runUntil(expect(late('throw', false)).rejects.toMatchObject({ code: 'LOCK_LOST', outcome: { status: 'fulfilled', value: 'done' } }));
    await fleet.clock.runUntil(expect(late('throw', true)).rejects.toMatchObject({ code: 'LOCK_LOST', outcome: { status: 'rejected' }, cause: { message: 'disk full' } }));
    await expect(fleet.clock.runUntil(late('ignore', false))).resolves.toBe('done');
    await fleet.clock.runUntil(expect(late('ignore', true)).rejects.toThrow('disk full'));
  });

  it('whose work ended because of the loss rejects with the loss alone', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const work = locks.withLock('k', { renew: false, leaseMs: 200 }, ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))));
    const error: unknown = await fleet.clock.runUntil(work.catch((reason: unknown) => reason));
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ outcome: undefined, message: expect.not.stringContaining('The work failed as well') });
  });

  it('is not taken away by a fence that is none', async () => {
    const { locks } = new Fleet().process();
    const lease = await locks.acquire('k');
    for (const fence of [NaN, 0, -1, 1.5, '7' as unknown as number]) await expect(locks.forceRelease('k', { fence })).rejects.toThrow(LockUsageError);
    expect(lease.signal.aborted).toBe(false);
    expect(await locks.forceRelease('k', { fence: lease.fence })).toBe(true);
  });

  it('that an operator ended is told', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const lease = await locks.acquire('k');
    const aborted = new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
    expect(await locks.forceRelease('k', { fence: lease.fence + 1 })).toBe(false);
    expect(await locks.forceRelease('k', { fence: lease.fence })).toBe(true);
    await fleet.clock.runUntil(aborted);
    expect(await lease.release()).toBe('lost');
  });

  it('of several keys is all or nothing, in one order for everybody', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const lease = await locks.acquire(['b', 'a', 'b']);
    expect(lease.keys).toEqual(['a', 'b']);
    expect([...lease.fences.keys()]).toEqual(['a', 'b']);
    expect(() => lease.fence).toThrow(LockUsageError);
    await fleet.clock.runUntil(expect(fleet.process().locks.acquire(['c', 'b'], { waitMs: 100 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT', key: 'b' }));
    await lease.release();
    expect(await locks.isLocked('a')).toBe(false);
    expect(await locks.isLocked('b')).toBe(false);
    await expect(locks.acquire([])).rejects.toMatchObject({ code: 'LOCK_KEY' });
  });

  it('of several keys gives all back when one stays busy or is lost', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const other = fleet.process();
    const c: Lease = await other.locks.acquire('c');
    await fleet.clock.runUntil(expect(locks.acquire(['a', 'b', 'c'], { waitMs: 100 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT', key: 'c' }));
    await fleet.clock.settle();
    expect(await locks.isLocked('a')).toBe(false);
    const waiting = expect(locks.acquire(['a', 'c'], { waitMs: 10_000 })).rejects.toMatchObject({ code: 'LOCK_LOST', key: 'a' });
    await fleet.clock.settle();
    await other.locks.forceRelease('a');
    await fleet.clock.runUntil(waiting);
    await c.release();
    expect(await locks.isLocked('c')).toBe(false);
  });

  it('in both orders at once never deadlocks', async () => {
    const fleet = new Fleet();
    const one = fleet.process();
    const two = fleet.process();
    const accounts = { a: 500, b: 500 };
    const transfer = async (locks: typeof one.locks, from: 'a' | 'b', to: 'a' | 'b'): Promise<void> => {
      for (let n = 0; n < 100; n++) {
        await locks.withLock([`account:${from}`, `account:${to}`], { waitMs: Infinity }, async () => {
          const before = { ...accounts };
          await new Promise<void>((resolve) => fleet.clock.nextTurn(resolve));
          accounts[from] = before[from] - 1;
          accounts[to] = before[to] + 1;
        });
      }
    };
    await fleet.clock.runUntil(Promise.all([transfer(one.locks, 'a', 'b'), transfer(two.locks, 'b', 'a')]));
    expect(accounts).toEqual({ a: 500, b: 500 });
  });

  it('of one owner is joined from other processes, with its fence and mode, each with a lease of its own', async () => {
    const fleet = new Fleet();
    const leases = await Promise.all([1, 2, 3].map(() => fleet.process().locks.acquire('k', { owner: 'saga-7' })));
    expect(new Set(leases.map(({ fence }) => fence)).size).toBe(1);
    const { locks } = fleet.process();
    expect(await locks.tryAcquire('k')).toBeNull();
    for (const lease of [leases[1]!, leases[0]!]) expect(await lease.release()).toBe('released');
    expect(await locks.tryAcquire('k')).toBeNull();
    expect(await leases[2]!.release()).toBe('released');
    expect(await locks.isLocked('k')).toBe(false);
    const reading = await locks.acquire('k', { owner: 'saga-8', mode: 'read' });
    await expect(fleet.process().locks.acquire('k', { owner: 'saga-8' })).rejects.toThrow(LockUsageError);
    await reading.release();
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
