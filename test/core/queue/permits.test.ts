import { describe, expect, it } from '@jest/globals';
import { LockStoreError, LockTimeoutError, LockUsageError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { LockOptions } from '../../../lib/core/port/lock-options.js';
import { LockService } from '../../../lib/lock.service.js';
import { answering } from '../../support/answering.js';
import { alone, besideHolder, Fleet, gate } from '../../support/locks.js';
import { Turns } from '../../support/turns.js';

const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, index) => make(index));

describe('The callers of one process that want a permit', () => {
  it('take no more places in the queue of the store than callers of the process wait, once some have given up', async () => {
    const fleet = new Fleet();
    const other = fleet.process().locks;
    const { locks } = fleet.process();
    const held = [await other.acquire('k', { permits: 2 }), await other.acquire('k', { permits: 2 })];
    const refused = expect(locks.acquire('k', { permits: 2, waitMs: 200 })).rejects.toThrow(LockTimeoutError);
    const patient = locks.acquire('k', { permits: 2 });
    await fleet.clock.advance(100);
    expect((await fleet.store.inspect('k')).waiters).toHaveLength(2);
    await fleet.clock.advance(200);
    await refused;
    expect((await fleet.store.inspect('k')).waiters).toHaveLength(1);
    for (const lease of held) await fleet.clock.runUntil(lease.release());
    await fleet.clock.runUntil((await fleet.clock.runUntil(patient)).release());
    expect(fleet.store.size).toBe(0);
  });

  it('with different terms wait for one lock in the order in which the store heard of them', async () => {
    const { fleet, locks } = alone();
    const held = await locks.acquire('k', { permits: 1 });
    const order: string[] = [];
    const calls = [
      locks.withLock('k', { permits: 1, leaseMs: 5_000 }, async () => void order.push('short')),
      locks.withLock('k', { permits: 1, graceMs: 100 }, async () => void order.push('grace')),
      locks.withLock('k', { permits: 1, minHoldMs: 50 }, async () => void order.push('min')),
      locks.withLock('k', { permits: 1, renew: false }, async () => void order.push('fixed')),
    ];
    await fleet.clock.settle();
    await fleet.clock.runUntil(held.release());
    await fleet.clock.runUntil(Promise.all(calls));
    expect(order).toEqual(['short', 'grace', 'min', 'fixed']);
  });
});

describe('The number of permits', () => {
  const refusals: readonly LockOptions[] = [{ permits: 3 }, { permits: 4, waitMs: 0 }, {}, { mode: 'read' }, { owner: '2' }];

  it.each(refusals)('is the same for all who hold or wait: %p beside 2 rejects with both, from this process and another', async (how) => {
    const { fleet, locks } = alone();
    const lease = await locks.acquire('k', { permits: 2 });
    for (const who of [locks, fleet.process().locks]) {
      const refused = await fleet.clock.runUntil(who.acquire('k', how).catch((error: unknown) => error));
      expect(refused).toBeInstanceOf(LockUsageError);
      expect(String(refused)).toContain(how.permits === undefined ? 'names no permits' : `names ${how.permits} permits`);
      expect(String(refused)).toContain('name 2 permits');
    }
    await lease.release();
    const idle = await fleet.clock.runUntil(locks.acquire('k', how));
    await fleet.clock.runUntil(idle.release());
  });

  it('is a whole number from 1 to 10,000, not for reading, an owner or several locks', async () => {
    const { locks } = new Fleet().process();
    const refused: readonly [LockOptions, RegExp][] = [
      [{ permits: 0 }, /permits to be a whole number from 1 to 10000, got 0/],
      [{ permits: 10_001 }, /from 1 to 10000, got 10001/],
      [{ permits: 1.5 }, /got 1\.5/],
      [{ permits: NaN }, /got NaN/],
      [{ permits: 2, mode: 'read' }, /permits do not go with mode 'read'/],
      [{ permits: 2, owner: 'me' }, /permits do not go with owner/],
    ];
    for (const [how, words] of refused) {
      await expect(locks.acquire('k', how)).rejects.toThrow(words);
      await expect(locks.tryAcquire('k', how)).rejects.toThrow(LockUsageError);
      await expect(locks.withLock('k', how, async () => {})).rejects.toThrow(LockUsageError);
    }
    await expect(locks.acquire(['a', 'b'], { permits: 2 })).rejects.toThrow(/permits \(2\) are those of one lock, and this call is for 2/);
    const one = await locks.acquire(['a', 'a'], { permits: 10_000 });
    await one.release();
  });
});

describe('A call inside a hold with a permit', () => {
  it('re-enters the hold and takes no second permit', async () => {
    const { locks, wire } = alone();
    await locks.withLock('k', { permits: 2 }, async ({ fence }) => {
      await locks.withLock('k', { permits: 2 }, async (inner) => expect(inner.fence).toBe(fence));
      expect([locks.assertLocked('k').fence, wire.commands]).toEqual([fence, 1]);
    });
  });

  it('that names another number, or none, is refused like one from outside', async () => {
    const { fleet, locks } = alone();
    await fleet.clock.runUntil(
      locks.withLock('k', { permits: 2 }, async () => {
        await expect(locks.withLock('k', { permits: 3 }, async () => {})).rejects.toThrow(/names 3 permits, but .* name 2 permits/);
        await expect(locks.withLock('k', async () => {})).rejects.toThrow(/names no permits/);
        await expect(locks.withLock('k', { mode: 'read' }, async () => {})).rejects.toThrow(LockUsageError);
      }),
    );
    await fleet.clock.runUntil(locks.withLock('k', () => expect(locks.withLock('k', { permits: 2 }, async () => {})).rejects.toThrow(/name no permits/)));
  });
});

/** The callers of one process in line for the permits of a lock: which request stands for whom, and what becomes of it. */

/** The numbers of the calls that were told to wait. */
function waitsOf(locks: LockService): (number | undefined)[] {
  const told: (number | undefined)[] = [];
  locks.events.subscribe(({ type, call }) => type === 'waiting' && told.push(call));
  return told;
}

describe('A caller in line for a permit', () => {
  it('is served by the request of another that is answered first, and the other waits on in its stead', async () => {
    const { fleet, locks, wire, other: held } = await besideHolder('k', { permits: 2 });
    const answer = gate();
    answering(wire, (n, ask) => (n === 0 ? answer.promise.then(ask) : ask()));
    const [told, first] = [waitsOf(locks), locks.acquire('k', { permits: 2 })];
    const second = locks.acquire('k', { permits: 2 });
    await fleet.clock.runUntil(first);
    expect(told).toHaveLength(1);
    answer.open();
    await fleet.clock.settle();
    expect(told).toHaveLength(1);
    await held.release();
    await (await fleet.clock.runUntil(second)).release();
  });

  it('that does not want to wait is refused at once when its permit went to one before it and the other request has to wait', async () => {
    const { fleet, locks, wire, other: held } = await besideHolder('k', { permits: 2 });
    const answer = gate();
    answering(wire, (n, ask) => (n === 0 ? answer.promise.then(ask) : ask()));
    const [first, tried] = [locks.acquire('k', { permits: 2 }), locks.tryAcquire('k', { permits: 2 })];
    const last = locks.acquire('k', { permits: 2 });
    await fleet.clock.runUntil(first);
    const since = fleet.clock.now();
    answer.open();
    expect([await fleet.clock.runUntil(tried), fleet.clock.now() - since]).toEqual([null, 0]);
    await held.release();
    await (await fleet.clock.runUntil(last)).release();
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
    const { fleet, locks, wire } = alone();
    const held = await Promise.all(many(2, () => fleet.process().locks.acquire('k', { permits: 2 })));
    const order: string[] = [];
    const impatient = expect(locks.acquire('k', { permits: 2, waitMs: 100 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    await fleet.clock.settle();
    const { commands } = wire;
    expect([await locks.tryAcquire('k', { permits: 2 }), wire.commands]).toEqual([null, commands]);
    const elsewhere = fleet.process().locks.withLock('k', { permits: 2 }, async () => void order.push('elsewhere'));
    await fleet.clock.settle();
    const here = locks.withLock('k', { permits: 2 }, async () => void order.push('here'));
    await fleet.clock.advance(200);
    await impatient;
    await held[0]!.release();
    await fleet.clock.runUntil(Promise.all([elsewhere, here]));
    expect(order).toEqual(['here', 'elsewhere']);
  });
});

describe('A permit', () => {
  it('is handed to the next caller of its process with one command, and given back when nobody here may have it, also while others ask', async () => {
    const { fleet, locks, wire, other: held } = await besideHolder('k', { permits: 2 });
    const first = await locks.acquire('k', { permits: 2 });
    const [second, third] = [locks.acquire('k', { permits: 2 }), locks.acquire('k', { permits: 2 })];
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

/** Who comes when, with which fences, at how many commands. */
describe('The callers of a process that take turns on permits', () => {
  it('run as many at a time as there are permits, each in its turn, with one command a turn', async () => {
    const { fleet, locks, wire } = alone();
    const turns = new Turns(fleet, 2_000, 4);
    await fleet.clock.runUntil(Promise.all(many(16, (caller) => turns.take(`${caller}`, locks))));
    expect(turns.most).toBe(4);
    expect(Math.max(...turns.counts) - Math.min(...turns.counts)).toBeLessThanOrEqual(4);
    expect(wire.commands / 2_000).toBeLessThanOrEqual(1.1);
    expect(fleet.store.size).toBe(0);
  });

  it.each([
    { permits: 4, handOn: 16, holdMs: undefined }, { permits: 3, handOn: 16, holdMs: 1 }, { permits: 4, handOn: 1, holdMs: 5 },
  ])('share the permits fairly with three other processes, at one command a hold, with fences that rise (handOn $handOn, $permits permits, $holdMs ms)', async ({ permits, handOn, holdMs }) => {
    const fleet = new Fleet();
    const processes = many(4, () => fleet.process({ handOn }));
    const turns = new Turns(fleet, 2_000, permits, holdMs);
    await fleet.clock.runUntil(Promise.all(processes.flatMap(({ locks }, process) => many(16, () => turns.take(`${process}`, locks)))));
    expect(turns.most).toBe(permits);
    expect(Math.max(...turns.counts) / Math.min(...turns.counts)).toBeLessThanOrEqual(1.2);
    const commands = processes.reduce((sum, { wire }) => sum + wire.sent.acquire + wire.sent.release, 0);
    expect(commands / 2_000).toBeLessThanOrEqual(1.1);
    expect(fleet.store.size).toBe(0);
  });

  it('have fences above that of a process which was granted the permit that an operator took from this one', async () => {
    const fleet = new Fleet();
    const [here, there] = [fleet.process().locks, fleet.process().locks];
    const taken = here.acquire('k', { permits: 2 });
    const work = gate();
    const calls = [() => work.promise, async ({ fence }: Lease) => fence].map((fn) => here.withLock<number | void>('k', { permits: 2 }, fn));
    const other = there.acquire('k', { permits: 2 });
    await there.forceRelease('k', { fence: (await taken).fence });
    const { fence } = await fleet.clock.runUntil(other);
    work.open();
    expect((await fleet.clock.runUntil(Promise.all(calls)))[1]).toBeGreaterThan(fence);
  });

  it('have a permit handed on to them by the store, sixteen in a row, before another process has its turn', async () => {
    const fleet = new Fleet();
    const [here, there] = [fleet.process(), fleet.process()];
    const held = await there.locks.acquire('k', { permits: 2 });
    const order: string[] = [];
    const begun = gate();
    const hold = (): Promise<void> => here.locks.withLock('k', { permits: 2 }, () => {
      order.push('here');
      return begun.promise;
    });
    const first = hold();
    await fleet.clock.settle();
    const waits = there.locks.withLock('k', { permits: 2 }, async () => void order.push('there'));
    await fleet.clock.settle();
    const others = many(19, hold);
    await fleet.clock.settle();
    const before = here.wire.commands;
    begun.open();
    await fleet.clock.runUntil(Promise.all([first, ...others, waits]));
    expect(order.indexOf('there')).toBe(16);
    // Each command gives a permit back and asks for the next caller. The last one only gives back, and one request of the other lane is withdrawn.
    expect(here.wire.commands - before).toBeLessThanOrEqual(20 + 2);
    await fleet.clock.runUntil(held.release());
    expect(fleet.store.size).toBe(0);
  });

  it('give a permit to whoever has waited longest, in whichever process, with one command that asks for the next call here, where nothing is handed on', async () => {
    const fleet = new Fleet();
    const [here, there] = [fleet.process({ handOn: 1 }), fleet.process()];
    const order: string[] = [];
    const first = await here.locks.acquire('k', { permits: 1 });
    const call = ({ locks }: typeof here, name: string): Promise<void> => locks.withLock('k', { permits: 1 }, async () => void order.push(name));
    const calls = [call(here, 'here 1'), call(here, 'here 2')];
    await fleet.clock.settle();
    calls.push(call(there, 'there'));
    await fleet.clock.settle();
    const before = here.wire.commands;
    await first.release();
    await fleet.clock.runUntil(Promise.all(calls));
    expect(order).toEqual(['there', 'here 1', 'here 2']);
    expect(here.wire.commands - before).toBe(3);
    expect(fleet.store.size).toBe(0);
  });

  it('have a fence above that of a process which was granted the permit of a lease that ended while this one was blocked', async () => {
    const fleet = new Fleet();
    const [here, there] = [fleet.process().locks, fleet.process().locks];
    const options = { permits: 2, leaseMs: 3_000 };
    const [held, work] = [await here.acquire('k', { ...options, maxHoldMs: 4_000 }), gate()];
    await fleet.clock.advance(3_600);
    const calls = [async () => 0, () => work.promise, async ({ fence }: Lease) => fence].map((fn) => here.withLock<number | void>('k', options, fn));
    await fleet.clock.settle();
    fleet.clock.block(450);
    const granted = there.acquire('k', options);
    work.open();
    const fences = await fleet.clock.runUntil(Promise.all(calls));
    const other = await granted;
    expect(fences[2]).toBeGreaterThan(other.fence);
    await fleet.clock.advance(1);
    expect(await other.release()).toBe('released');
    expect(held.signal.aborted).toBe(true);
  });
});
