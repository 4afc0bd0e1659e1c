/** A lock that is lost in the moment between its grant and the work: in this moment the call has the lock, and no hold of it is made yet. */
import { describe, expect, it, jest } from '@jest/globals';
import { LockClosedError, LockLostError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { LockMode, LockOptions } from '../../../lib/core/port/lock-options.js';
import type { RenewOutcome } from '../../../lib/core/port/lock-store.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, Fleet, gate, type Wire } from '../../support/locks.js';

interface Renewing {
  readonly fleet: Fleet;
  readonly locks: LockService;
  readonly holder: Lease;
  /** A call that waits behind a writer. */
  readonly follower: Promise<Lease> | undefined;
  /** The answer to the renewal that is under way comes: the store does not know the lease. */
  answerLost(): void;
}

/** A process whose renewal is answered when the test says so, while its lease still admits callers. */
async function renewing(mode: LockMode): Promise<Renewing> {
  const fleet = new Fleet();
  // A writer hands its lease on within 50 ms only, so its lease is so short that it is being renewed by then.
  const { leaseMs, heldMs } = mode === 'write' ? { leaseMs: 100, heldMs: 36 } : { leaseMs: 1_500, heldMs: 700 };
  const { locks, wire } = fleet.process({ leaseMs });
  let holder = await locks.acquire('k', { mode });
  let follower: Promise<Lease> | undefined;
  if (mode === 'write') {
    // The lease of the first has one fence, so it is not handed on; that of the second has enough for the third.
    const second = locks.acquire('k');
    follower = locks.acquire('k');
    void holder.release();
    holder = await fleet.clock.runUntil(second);
  }
  const answer = gate<RenewOutcome>();
  wire.renew = () => answer.promise;
  await fleet.clock.advance(heldMs);
  await fleet.store.forceRelease('k');
  return { fleet, locks, holder, follower, answerLost: () => answer.open({ kind: 'lost' }) };
}

/** Calls `then` right after this process learned of its next grant or ticket: the call that gets the lock goes on after that. */
function rightAfter(verb: 'acquire' | 'adopt', wire: Wire, then: () => void): void {
  const original = wire[verb].bind(wire) as (request: never) => Promise<unknown>;
  Object.assign(wire, {
    [verb]: (request: never) => {
      Object.assign(wire, { [verb]: original });
      const answer = original(request);
      // The caller of the store awaits the same promise, and has done so before.
      queueMicrotask(() => void answer.then(then));
      return answer;
    },
  });
}

/** A process that finds out, when it is told to look, that its machine slept for longer than every lease. */
async function sleeper(): Promise<{ fleet: Fleet; locks: LockService; wire: Wire; noticeSleep: () => void }> {
  const { fleet, locks, wire } = alone({ leaseMs: 3_000 });
  const other = await locks.acquire('other');
  const noticeSleep = (): void => {
    fleet.clock.sleepMachine(10_000);
    expect(other.remainingMs).toBe(0);
  };
  return { fleet, locks, wire, noticeSleep };
}

describe('A call whose lease is lost before its work begins', () => {
  it('asks for the lock anew when it had joined the readers of its process', async () => {
    const { fleet, locks, holder, answerLost } = await renewing('read');
    answerLost();
    const joined = locks.withLock('k', { mode: 'read' }, (lease) => lease.signal.aborted);
    expect(await fleet.clock.runUntil(joined)).toBe(false);
    expect(holder.signal.aborted).toBe(true);
  });

  it('asks for the lock anew when the lease had been handed on to it', async () => {
    const { fleet, locks, holder, follower, answerLost } = await renewing('write');
    answerLost();
    void holder.release();
    const lease = await fleet.clock.runUntil(follower!);
    lease.assertHeld();
    expect(lease.fence).toBe((await locks.inspect('k')).holders[0]?.fence);
  });

  const KINDS: Record<string, LockOptions> = {
    'for writing': {}, 'for reading': { mode: 'read' }, 'for a permit': { permits: 3 }, 'of an owner': { owner: 'job' }, 'with minHoldMs': { minHoldMs: 5_000 },
  };
  it.each(Object.entries(KINDS))('takes the lock %s under a lease that it can trust', async (_kind, options) => {
    const { fleet, locks, wire, noticeSleep } = await sleeper();
    const events: string[] = [];
    locks.events.subscribe(({ type }) => events.push(type));
    rightAfter('acquire', wire, noticeSleep);
    const ran = locks.withLock('k', options, (lease) => lease.remainingMs);
    expect(await fleet.clock.runUntil(ran)).toBeGreaterThan(1_000);
    expect(wire.sent.acquire).toBe(3);
    expect(events).toEqual(['lost', 'granted', 'released']);
  });

  it('has as long for its second request as for its first, however long that took', async () => {
    const { fleet, locks, wire, noticeSleep } = await sleeper();
    wire.slowMs = 1_000;
    const allowedMs: number[] = [];
    const acquire = wire.acquire.bind(wire);
    wire.acquire = (request) => {
      allowedMs.push(request.notAfter - fleet.clock.now());
      return acquire(request);
    };
    rightAfter('acquire', wire, noticeSleep);
    await fleet.clock.runUntil(locks.withLock('k', () => {}));
    expect(allowedMs).toEqual([allowedMs[0], allowedMs[0]]);
  });

  it('takes all of several locks anew', async () => {
    const { fleet, locks, wire, noticeSleep } = await sleeper();
    const { signal } = new AbortController();
    let looks = 0;
    // A call that has all of its locks listens to its signal no more: that is the last thing it does before its hold is made.
    signal.removeEventListener = () => (looks += 1) === 1 && noticeSleep();
    const ran = locks.withLock(['a', 'b'], { signal }, (lease) => lease.remainingMs);
    expect(await fleet.clock.runUntil(ran)).toBeGreaterThan(1_000);
    expect(wire.sent.acquire).toBe(5);
    await fleet.clock.settle();
    expect([await locks.isLocked('a'), await locks.isLocked('b')]).toEqual([false, false]);
  });

  it('S1: asks for the lock anew when the work of another call of that turn went on for longer than its lease', async () => {
    const { fleet, locks } = alone({ leaseMs: 3_000 });
    const leftMs: number[] = [];
    const work = (lease: Lease): void => {
      if (leftMs.push(lease.remainingMs) === 1) fleet.clock.block(4_000);
    };
    const ran = await fleet.clock.runUntil(Promise.allSettled(['a', 'b'].map((key) => locks.withLock(key, work))));
    expect([ran.map(({ status }) => status), leftMs.every((ms) => ms > 2_000)]).toEqual([['rejected', 'fulfilled'], true]);
  });

  it.each([1, 2, 3, 4, 5])('S1: asks for the lock anew when what followed another hold went on for longer than its lease (%i turns of microtasks later)', async (turns) => {
    const { fleet, locks } = alone({ leaseMs: 3_000 });
    const done = gate();
    void locks.withLock('a', () => done.promise).then(() => fleet.clock.block(4_000));
    await fleet.clock.settle();
    done.open();
    for (let n = 0; n < turns; n++) await undefined;
    expect(await fleet.clock.runUntil(locks.withLock('c', (lease) => lease.remainingMs))).toBeGreaterThan(2_000);
  });

  it('is told of the loss when it adopts a hold', async () => {
    const { fleet, locks, wire, noticeSleep } = await sleeper();
    const ticket = await (await fleet.process().locks.acquire('k')).handOff();
    rightAfter('adopt', wire, noticeSleep);
    await expect(fleet.clock.runUntil(locks.withAdopted(ticket, () => 'ran'))).rejects.toMatchObject({ reason: 'expired' });
  });

  it('waits for no lease that was to be handed on, and that nobody uses', async () => {
    const { fleet, locks, noticeSleep } = await sleeper();
    const startedAt = fleet.clock.now();
    let ended = 0;
    locks.events.subscribe(({ type }) => type === 'released' && (ended += 1) === 64 && noticeSleep());
    await fleet.clock.runUntil(Promise.all(Array.from({ length: 65 }, () => locks.withLock('k', () => {}))));
    expect([ended, fleet.clock.now() - startedAt < 1_000]).toEqual([65, true]);
  });

  it('gives up the lock when its signal aborted meanwhile', async () => {
    const { fleet, locks, wire, noticeSleep } = await sleeper();
    const controller = new AbortController();
    rightAfter('acquire', wire, () => {
      noticeSleep();
      controller.abort(new Error('the client has gone'));
    });
    const ran = locks.withLock('k', { signal: controller.signal }, () => 'ran');
    await expect(fleet.clock.runUntil(ran)).rejects.toThrow('the client has gone');
    await fleet.clock.settle();
    expect(await locks.isLocked('k')).toBe(false);
  });

  it.each(['acquire', 'adopt'] as const)('is refused when a shutdown took the lease (%s)', async (verb) => {
    const { fleet, locks, wire } = alone();
    const ticket = verb === 'adopt' ? await (await fleet.process().locks.acquire('k')).handOff() : undefined;
    rightAfter(verb, wire, () => void locks.close());
    await expect(fleet.clock.runUntil(ticket ? locks.withAdopted(ticket, () => 'ran') : locks.withLock('k', () => 'ran'))).rejects.toThrow(LockClosedError);
    await fleet.clock.settle();
    expect(await fleet.process().locks.isLocked('k')).toBe(false);
  });
});

describe('A call inside a hold that is lost before its work begins', () => {
  it('is told of the loss, and keeps nobody waiting', async () => {
    const { fleet, locks, noticeSleep } = await sleeper();
    const work = jest.fn();
    const outer = locks.withLock('k', async () => {
      const inner = locks.withLock('k', work);
      queueMicrotask(noticeSleep);
      await expect(inner).rejects.toThrow(LockLostError);
    });
    await expect(fleet.clock.runUntil(outer)).rejects.toThrow('The work finished anyway');
    expect(work).not.toHaveBeenCalled();
    await fleet.clock.runUntil(locks.withLock('k', () => {}));
  });
});

describe('An adoption whose lease is lost before its work begins', () => {
  it('says that nothing is held', async () => {
    const { fleet, locks, wire, noticeSleep } = await sleeper();
    const ticket = await (await fleet.process().locks.acquire('k')).handOff();
    rightAfter('adopt', wire, noticeSleep);
    const work = jest.fn();
    await expect(fleet.clock.runUntil(locks.withAdopted(ticket, work))).rejects.toThrow(LockLostError);
    expect(work).not.toHaveBeenCalled();
    await fleet.clock.settle();
    expect(await locks.isLocked('k')).toBe(false);
  });
});
