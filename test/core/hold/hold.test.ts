/** One hold from its grant to its end: what it is told when its lease is lost, and what its times mean. */
import { inspect } from 'node:util';
import { describe, expect, it, jest } from '@jest/globals';
import { ConsoleLogger } from '@nestjs/common';
import { defer, firstValueFrom, of } from 'rxjs';
import { pause } from '../../../lib/core/port/clock.js';
import { LockLostError, LockStoreError, LockTimeoutError, LockUsageError } from '../../../lib/core/port/errors.js';
import type { LockDefaults, LockOptions } from '../../../lib/core/port/lock-options.js';
import { resolveDefaults } from '../../../lib/core/port/options.js';
import type { Leadership, Lease } from '../../../lib/index.js';
import { alone, Fleet, eventsOf, gate } from '../../support/locks.js';

describe('A lease as JSON', () => {
  it('says which locks it holds, with which fences and for how long, and nothing of the library behind it', async () => {
    const { fleet, locks } = alone({ leaseMs: 9_000 });
    const lease = await locks.acquire(['a', 'b']);
    await fleet.clock.advance(1_000);
    expect(JSON.parse(JSON.stringify({ lease }))).toEqual({
      lease: {
        key: 'a', keys: ['a', 'b'], mode: 'write', fences: { a: lease.fences.get('a'), b: lease.fences.get('b') },
        holdCount: 1, heldMs: 1_000, remainingMs: 8_000,
      },
    });
  });

  it('is also what console.log and the logger of Nest write of it', async () => {
    const { locks } = alone();
    const lease = await locks.acquire('k');
    expect(inspect(lease)).toBe(inspect(lease.toJSON()));
    const write = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
    new ConsoleLogger({ colors: false }).log(lease);
    const [[written]] = write.mock.calls as [[string]];
    write.mockRestore();
    expect(written).toContain('holdCount: 1');
    expect(written.length).toBeLessThan(500);
  });
});

describe('A hold', () => {
  it('whose work gives an Observable or a generator, which would begin after the release, ends with an error that says so', async () => {
    const { fleet, locks } = alone();
    const begun = jest.fn();
    const lazy = defer(() => of(begun()));
    const generators = [function* () { yield begun(); }, async function* () { yield begun(); }];
    for (const work of [() => lazy, async () => lazy, ...generators] as (() => unknown)[]) {
      const refused = expect(locks.withLock('k', work)).rejects.toMatchObject({ code: 'LOCK_USAGE', key: 'k', message: expect.stringContaining('await firstValueFrom(observable)') });
      await fleet.clock.runUntil(refused);
      expect(await locks.isLocked('k')).toBe(false);
    }
    expect(begun).not.toHaveBeenCalled();
    const emitter = { subscribe: begun };
    expect(await locks.withLock('k', () => emitter)).toBe(emitter);
    expect(await fleet.clock.runUntil(locks.withLock('k', () => firstValueFrom(of(7))))).toBe(7);
  });

  it('has the options that its caller names now, though the object had other ones in the call before', async () => {
    const { locks } = alone();
    const options = { leaseMs: 0 };
    for (options.leaseMs of [5_000, 9_000]) await locks.withLock('k', options, ({ remainingMs }) => expect(remainingMs).toBe(options.leaseMs));
  });

  it('is told that its lease is lost at the end of trust, though the store is silent', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { leaseMs: 1_000 });
    wire.cut = true;
    const since = fleet.clock.now();
    let abortedAfter = 0;
    lease.signal.addEventListener('abort', () => (abortedAfter = fleet.clock.now() - since));
    await fleet.clock.advance(2_000);
    expect(abortedAfter).toBeGreaterThan(0);
    expect(abortedAfter).toBeLessThanOrEqual(1_000);
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ name: 'LockLostError', reason: 'expired' }));
    expect(await lease.release()).toBe('lost');
  });

  it('with a fixed lease ends with it', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { leaseMs: 500, renew: false });
    await fleet.clock.advance(400);
    await lease.renew(1_000);
    await fleet.clock.advance(900);
    lease.assertHeld();
    await fleet.clock.advance(200);
    expect(lease.signal.reason).toHaveProperty('reason', 'expired');
    expect(wire.sent.renew).toBe(1);
  });

  it('longer than maxHoldMs is lost though it could be renewed, and the next one gets in', async () => {
    const { fleet, locks } = alone();
    const hung = await locks.acquire('k', { leaseMs: 1_000, maxHoldMs: 2_500 });
    const next = locks.acquire('k', { leaseMs: 1_000 });
    await fleet.clock.advance(2_400);
    hung.assertHeld();
    await fleet.clock.advance(101);
    expect(hung.signal.reason).toMatchObject({ reason: 'max-hold', message: expect.stringContaining('held longer than maxHoldMs') });
    const lease = await fleet.clock.runUntil(next);
    expect(lease.fence).toBeGreaterThan(hung.fence);
    expect(await hung.release()).toBe('lost');
    lease.assertHeld();
  });

  it('that ended in time is released, though maxHoldMs ends before the answer to its release', async () => {
    const { fleet, locks, wire } = alone();
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

  it.each([{ maxHoldMs: 500 }, { leaseMs: 500, renew: false }])('that ended in time is none that was lost, though its lease ran out, and the next one got in, before its release arrived: %j', async (options) => {
    const { fleet, locks, wire } = alone();
    const lost: string[] = [];
    locks.events.subscribe(({ type }) => void (type === 'lost' && lost.push(type)));
    const release = wire.release.bind(wire);
    wire.release = async (request) => (await pause(fleet.clock, 400), release(request));
    const work = locks.withLock('k', options, () => pause(fleet.clock, 300).then(() => 'done'));
    await fleet.clock.settle();
    const next = fleet.process().locks.withLock('k', () => fleet.clock.now());
    expect(await fleet.clock.runUntil(work)).toBe('done');
    expect(await fleet.clock.runUntil(next)).toBeLessThan(fleet.clock.now());
    expect(lost).toEqual([]);
    // Of a store that may have forgotten the lock nobody knows whether another holder was at work meanwhile.
    wire.mayHaveForgotten = ({ key }) => key === 'k';
    const doubtful = locks.withLock(['k', 'l'], options, () => pause(fleet.clock, 300));
    await fleet.clock.settle();
    void fleet.process().locks.withLock('k', () => {});
    await expect(fleet.clock.runUntil(doubtful)).rejects.toThrow(LockLostError);
  });

  it('shorter than minHoldMs resolves at once and leaves the lock taken that long', async () => {
    const { fleet, locks } = alone();
    const since = fleet.clock.now();
    await locks.withLock('k', { minHoldMs: 2_000 }, async () => {});
    expect(fleet.clock.now()).toBe(since);
    expect(await locks.tryAcquire('k')).toBeNull();
    await fleet.clock.runUntil(locks.acquire('k'));
    expect(fleet.clock.now() - since).toBeGreaterThanOrEqual(2_000);
  });

  it('whose work ended after its lease was lost rejects with what the work came to', async () => {
    const { fleet, locks, wire } = alone();
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
    const { fleet, locks } = alone();
    const work = locks.withLock('k', { renew: false, leaseMs: 200 }, ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))));
    const error: unknown = await fleet.clock.runUntil(work.catch((reason: unknown) => reason));
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ outcome: undefined, message: expect.not.stringContaining('The work failed as well') });
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
});

/** How a hold ends: what its release resolves to, what it tells of itself meanwhile and after, and what it asks of the store. */
const { commandTimeoutMs } = resolveDefaults();

function setUp() {
  const { fleet, locks, wire } = alone();
  const told = eventsOf(locks);
  return { fleet, clock: fleet.clock, locks, wire, told, other: fleet.process().locks };
}

/** Lets every release reach the store only after a while. */
function delayReleases({ clock, wire }: ReturnType<typeof setUp>, ms: number): void {
  const release = wire.release.bind(wire);
  wire.release = async (request) => (await pause(clock, ms), release(request));
}

describe('The release of a hold', () => {
  it('that is asked for twice at once is one release, of which both hear', async () => {
    const on = setUp();
    const lease = await on.locks.acquire('k', { maxHoldMs: 1_000 });
    delayReleases(on, 50);
    const both = Promise.all([lease.release(), lease.release(), lease.release()]);
    expect(await on.clock.runUntil(both)).toEqual(['released', 'released', 'released']);
    await on.clock.advance(50);
    expect([on.wire.sent.release, on.locks.core!.schedule.size]).toEqual([1, 0]);
  });

  it('by the end of its scope is over when the lock is free', async () => {
    const on = setUp();
    const lease = await on.locks.acquire('k');
    delayReleases(on, 50);
    await on.clock.runUntil(lease[Symbol.asyncDispose]());
    expect(await on.other.isLocked('k')).toBe(false);
  });

  it.each([
    ['lost', 'released', 'lost'], ['released', 'lost', 'lost'], ['unknown', 'released', 'unknown'], ['released', 'unknown', 'unknown'],
    ['unknown', 'lost', 'lost'], ['lost', 'unknown', 'lost'], ['released', 'released', 'released'],
  ] as const)('of two locks that were %s and %s is %s, and what got no answer is released again', async (first, second, outcome) => {
    const { clock, locks, wire } = setUp();
    const lease = await locks.acquire(['a', 'b']);
    wire.release = async ({ key }) => {
      const answer = key === 'a' ? first : second;
      if (answer === 'unknown') throw new LockStoreError('no answer');
      return answer;
    };
    expect(await lease.release()).toBe(outcome);
    let again = 0;
    wire.release = async () => ((again += 1), 'released');
    await clock.advance(1_000);
    expect(again).toBe([first, second].filter((each) => each === 'unknown').length);
  });

  it('waits for calls inside the hold, and no longer than one request may take', async () => {
    const { clock, locks } = setUp();
    const goesOn = gate();
    const lease = await locks.acquire('k');
    const inside = lease.run(() => locks.withLock('k', () => goesOn.promise));
    await clock.settle();
    const since = clock.now();
    expect(await clock.runUntil(lease.release())).toBe('unknown');
    expect(clock.now() - since).toBe(commandTimeoutMs);
    goesOn.open();
    await inside;
  });
});

describe('A hold', () => {
  it('is over at the very end of its maxHoldMs, whatever is left of the lease', async () => {
    const { clock, locks } = setUp();
    const lease = await locks.acquire('k', { mode: 'read', leaseMs: 1_000, maxHoldMs: 1_000 });
    await locks.acquire('k', { mode: 'read', leaseMs: 1_000 });
    await clock.advance(999);
    lease.assertHeld();
    clock.block(1);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
  });

  it('of several locks is announced as nested only when it has no lease of its own', async () => {
    const { locks, told } = setUp();
    await locks.withLock(['a', 'b'], () => locks.withLock(['a', 'b'], () => locks.withLock(['b', 'c'], () => {})));
    const nested = told.flatMap((event) => (event.type === 'granted' ? [event.nested] : []));
    expect(nested).toEqual([false, true, false]);
  });

  it('of which only the release found out that it was lost rejects, with what the work came to', async () => {
    const { locks, wire } = setUp();
    const release = wire.release.bind(wire);
    wire.release = async (request) => (await release(request), 'lost');
    await expect(locks.withLock('k', () => 'done')).rejects.toMatchObject({ code: 'LOCK_LOST', outcome: { status: 'fulfilled', value: 'done' }, message: expect.stringMatching(/no longer knew it when it was released\. .* The work finished anyway/) });
    await expect(locks.withLock('k', () => Promise.reject(new Error('disk full')))).rejects.toMatchObject({ code: 'LOCK_LOST', message: expect.stringMatching(/The work failed as well: disk full\.$/) });
    expect(await locks.withLock('k', { onLost: 'ignore' }, () => 'done')).toBe('done');
  });
});

describe('verify()', () => {
  it('is false for a lease that is lost here, though the store keeps it for its grace', async () => {
    const { clock, locks, wire } = setUp();
    const lease = await locks.acquire('k', { leaseMs: 1_000, graceMs: 5_000, renew: false });
    clock.block(1_001);
    expect([lease.remainingMs, await lease.verify()]).toEqual([0, false]);
    expect(wire.commands).toBe(1);
  });

  it('is false for a lease that was released, though the lock stays taken for its minHoldMs', async () => {
    const { locks } = setUp();
    const lease = await locks.acquire('k', { minHoldMs: 10_000 });
    expect(await lease.verify()).toBe(true);
    await lease.release();
    expect(await locks.isLocked('k')).toBe(true);
    expect(await lease.verify()).toBe(false);
  });

  it('is false when the store does not know one of several locks', async () => {
    for (const taken of ['a', 'b']) {
      const { locks, wire, other } = setUp();
      wire.lostWakes.add('lost');
      const lease = await locks.acquire(['a', 'b']);
      expect(await lease.verify()).toBe(true);
      await other.forceRelease(taken);
      expect(await lease.verify()).toBe(false);
      await lease.release();
    }
  });
});

describe('renew()', () => {
  it('without a length renews by that of the lease', async () => {
    const { clock, locks } = setUp();
    const lease = await locks.acquire('k', { leaseMs: 8_000, renew: false });
    await clock.advance(3_000);
    await lease.renew();
    expect(lease.remainingMs).toBe(8_000);
  });

  it('rejects when the store does not answer, and the lease is held until its present end', async () => {
    const { clock, locks, wire } = setUp();
    const lease = await locks.acquire('k', { leaseMs: 8_000 });
    wire.cut = true;
    await expect(lease.renew()).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true, message: expect.stringContaining('could not be renewed; the lease is trusted until its present end') });
    lease.assertHeld();
    wire.cut = false;
    await clock.settle();
  });

  it('rejects when the store says that it does not know the lease', async () => {
    const { locks, wire, other } = setUp();
    wire.lostWakes.add('lost');
    const lease = await locks.acquire('k');
    await other.forceRelease('k');
    await expect(lease.renew()).rejects.toBeInstanceOf(LockLostError);
    await lease.release();
  });
});

/** Every loss says why by a word that a program can compare: in the error, in the reason of `signal`, and in the event. */

/** A hold, and the reasons of the losses that its process is told of as events. */
async function held(options: LockOptions = {}, defaults: LockDefaults = {}) {
  const { fleet, locks, wire } = alone(defaults);
  const told: string[] = [];
  locks.events.subscribe((event) => void (event.type === 'lost' && told.push(event.cause.reason)));
  const lease = await locks.acquire('k', options);
  const reason = (): string => (lease.signal.reason as LockLostError).reason;
  return { fleet, locks, wire, lease, told, reason };
}

describe('A lost lease says', () => {
  it('released-by-force when an operator took the lock away, and gone when no message said so', async () => {
    const forced = await held();
    await forced.locks.forceRelease('k');
    await forced.fleet.clock.advance(10);
    expect([forced.reason(), ...forced.told]).toEqual(['released-by-force', 'released-by-force']);
    const silent = await held();
    silent.wire.lostWakes.add('lost');
    await silent.locks.forceRelease('k');
    await silent.fleet.clock.advance(11_000);
    expect([silent.reason(), ...silent.told]).toEqual(['gone', 'gone']);
  });

  it('released-by-force also when the next call of its process is granted the lock before the store was asked', async () => {
    const { locks, fleet, wire, reason, told } = await held();
    const next = locks.acquire('k', { leaseMs: 20_000 }); // other terms, so it waits in the store
    await fleet.clock.advance(10);
    const asked = jest.spyOn(wire, 'renew').mockReturnValue(new Promise(() => {})); // the grant comes before any answer
    await fleet.store.forceRelease('k');
    await fleet.clock.advance(100);
    await next;
    expect(asked).toHaveBeenCalledTimes(1);
    expect([reason(), ...told]).toEqual(['released-by-force', 'released-by-force']);
  });

  it('released-by-force, at once, also when the message of it comes before the answer that grants the lock', async () => {
    const { fleet, locks, wire } = alone();
    wire.slowMs = 20;
    const acquired = locks.acquire('k', { renew: false });
    await fleet.clock.settle();
    expect(await fleet.store.forceRelease('k')).toBe(true);
    const lease = await fleet.clock.runUntil(acquired);
    await fleet.clock.advance(25);
    expect((lease.signal.reason as LockLostError).reason).toBe('released-by-force');
  });

  it('forgotten when the store may have forgotten it', async () => {
    const { fleet, wire, lease, reason, told } = await held();
    wire.mayHaveForgotten = () => true;
    wire.lostWakes.add('lost');
    await fleet.store.forceRelease('k');
    await fleet.clock.advance(11_000);
    expect([reason(), ...told]).toEqual(['forgotten', 'forgotten']);
    expect(await lease.release()).toBe('lost');
  });

  it('shutdown when the work went on for too long, and ended when it was over before', async () => {
    const { fleet, locks, reason, told } = await held({}, { shutdownGraceMs: 100 });
    const closing = locks.close();
    await fleet.clock.advance(5_000);
    await closing;
    expect([reason(), ...told]).toEqual(['shutdown', 'shutdown']);
    const over = await held();
    await over.lease.release();
    expect(() => over.lease.assertHeld()).toThrow(expect.objectContaining({ reason: 'ended' }));
  });

  it('the same in the error of withLock, which carries the outcome of the work', async () => {
    const { fleet, locks } = alone();
    const work = locks.withLock('k', { maxHoldMs: 500 }, () => fleet.clock.advance(600));
    await expect(work).rejects.toMatchObject({ reason: 'max-hold', outcome: { status: 'fulfilled' } });
  });

  it('ticket-late and ticket-used when an adoption came too late, or second', async () => {
    const { fleet, locks } = alone();
    const ticket = await (await locks.acquire('k')).handOff();
    await (await locks.adopt(ticket)).release();
    await expect(locks.adopt(ticket)).rejects.toMatchObject({ reason: 'ticket-used' });
    const late = await (await locks.acquire('k')).handOff({ withinMs: 100 });
    await fleet.clock.advance(10_000);
    await expect(locks.adopt(late)).rejects.toMatchObject({ reason: 'ticket-late' });
  });
});

/** graceMs: how long a lock stays taken after a lease that ended without a release, seen from calls of the library. */
describe('A hold with graceMs', () => {
  it('is told of its loss at the end of its lease, and nobody follows it before its grace is over', async () => {
    const fleet = new Fleet();
    const [paused, other] = [fleet.process(), fleet.process()];
    const lease = await paused.locks.acquire('k', { leaseMs: 1_000, graceMs: 3_000 });
    paused.wire.cut = true;
    await fleet.clock.advance(1_001);
    expect(lease.signal.reason).toBeInstanceOf(LockLostError);
    expect(lease.remainingMs).toBe(0);
    const [early, late] = [other.locks.acquire('k', { waitMs: 2_000 }), other.locks.acquire('k', { waitMs: 20_000 })];
    early.catch(() => {});
    await fleet.clock.advance(2_100);
    await expect(early).rejects.toBeInstanceOf(LockTimeoutError);
    let granted = false;
    void late.then(() => (granted = true));
    await fleet.clock.advance(500);
    expect(granted).toBe(false);
    await fleet.clock.advance(1_500);
    expect(granted).toBe(true);
    await (await late).release();
  });

  it('loses its signal at maxHoldMs, and its lock the grace after that', async () => {
    const fleet = new Fleet();
    const [hung, other] = [fleet.process(), fleet.process()];
    const lease = await hung.locks.acquire('k', { leaseMs: 300, maxHoldMs: 1_000, graceMs: 2_000 });
    await fleet.clock.advance(1_001);
    expect(lease.signal.aborted).toBe(true);
    await fleet.clock.advance(1_500);
    expect(await other.locks.tryAcquire('k')).toBeNull();
    await fleet.clock.advance(600);
    await (await other.locks.tryAcquire('k'))?.release();
    expect(await other.locks.isLocked('k')).toBe(false);
  });

  it('is not handed on to a caller with another grace: that one would have less, or more, than it asked for', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { graceMs: 5_000 });
    const [alike, unlike] = [locks.acquire('k', { graceMs: 5_000 }), locks.acquire('k', { graceMs: 10_000 })];
    await fleet.clock.advance(10);
    await lease.release();
    await (await alike).release();
    const before = wire.sent.acquire;
    await unlike;
    expect(wire.sent.acquire).toBeGreaterThanOrEqual(before);
    expect((await locks.inspect('k')).holders).toMatchObject([{ graceMs: 10_000 }]);
  });

  it('has a grace on each of several keys', async () => {
    const { locks } = alone();
    await locks.acquire(['a', 'b'], { leaseMs: 1_000, graceMs: 4_000 });
    for (const key of ['a', 'b']) expect((await locks.inspect(key)).holders).toMatchObject([{ remainingMs: 1_000, graceMs: 4_000 }]);
  });

  it('is not renewed to more than maxLeaseMs with its grace', async () => {
    const { locks } = alone();
    const lease = await locks.acquire('k', { graceMs: 20_000 });
    await expect(lease.renew(50_000)).rejects.toBeInstanceOf(LockUsageError);
  });
});

describe('A term with graceMs', () => {
  it('that is cut off is told at the end of its lease, and the next leads only after the grace; after stop() the next leads at once', async () => {
    const fleet = new Fleet();
    const [one, two] = [fleet.process({ leaseMs: 3_000 }), fleet.process({ leaseMs: 3_000 })];
    const terms: Lease[] = [];
    const untilTold = async (term: Lease): Promise<void> => {
      terms.push(term);
      if (!term.signal.aborted) await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
    };
    const [first, second] = [one, two].map(({ locks }) => locks.lead('indexer', untilTold, { graceMs: 20_000 })) as [Leadership, Leadership];
    await fleet.clock.settle();
    one.wire.cut = true;
    await fleet.clock.advance(3_001);
    expect(terms[0]?.signal.aborted).toBe(true);
    await fleet.clock.advance(18_000);
    expect(second.isLeader).toBe(false);
    await fleet.clock.advance(3_000);
    expect(second.isLeader).toBe(true);
    one.wire.cut = false;
    await fleet.clock.advance(2_000);
    await second.stop();
    await fleet.clock.advance(200);
    expect(first.isLeader).toBe(true);
    await first.stop();
  });
});
