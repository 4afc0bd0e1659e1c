import { describe, expect, it, jest } from '@jest/globals';
import { pause } from '../../../lib/core/port/clock.js';
import { LockClosedError, LockLostError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { Finding } from '../../../lib/core/port/lock-events.js';
import { resolveDefaults } from '../../../lib/core/port/options.js';
import { alone, Fleet, gate } from '../../support/locks.js';

describe('Shutdown', () => {
  it('cancels waiters at once, lets holders finish while the watchdog goes on, and turns new work away', async () => {
    const { fleet, locks, wire } = alone({ leaseMs: 600, shutdownGraceMs: 10_000 });
    const work = gate();
    const holders = Array.from({ length: 5 }, (_, n) =>
      locks.withLock(`k:${n}`, async (lease) => {
        await work.promise;
        lease.assertHeld();
        await locks.withLock('needed to finish', async () => {});
      }),
    );
    await fleet.clock.settle();
    const waiters = Array.from({ length: 20 }, (_, n) => expect(locks.acquire(`k:${n % 5}`, { waitMs: Infinity })).rejects.toThrow(LockClosedError));
    await fleet.clock.settle();
    locks.prepareShutdown();
    await Promise.all(waiters);
    const closing = locks.close();
    await expect(locks.acquire('new')).rejects.toThrow(LockClosedError);
    await fleet.clock.advance(3_000);
    expect(wire.sent.release).toBe(0);
    work.open();
    await fleet.clock.runUntil(Promise.all(holders));
    await fleet.clock.runUntil(closing);
    expect(fleet.clock.pendingTimers).toBe(0);
  });

  it('turns calls inside a hold away once the grace is over', async () => {
    const { fleet, locks } = alone({ shutdownGraceMs: 100 });
    const goesOn = gate();
    const outer = locks.withLock('a', { onLost: 'ignore' }, async () => {
      await goesOn.promise;
      await expect(locks.withLock('b', async () => {})).rejects.toThrow(LockClosedError);
      return 'done';
    });
    await fleet.clock.settle();
    await fleet.clock.runUntil(locks.close());
    goesOn.open();
    expect(await fleet.clock.runUntil(outer)).toBe('done');
  });

  it('turns a call away whose hold has ended before its turn in it: it is not inside any more', async () => {
    const { fleet, locks } = alone();
    const [lease, sibling] = [await locks.acquire('k'), gate()];
    const inside = lease.run(() => locks.withLock('k', () => sibling.promise));
    const refused = expect(lease.run(() => locks.withLock('k', () => {}))).rejects.toThrow(LockClosedError);
    const closing = [locks.close(), lease.release(), inside];
    await refused;
    sibling.open();
    await fleet.clock.runUntil(Promise.all(closing));
  });

  it('turns calls away that wait for siblings inside a hold once the grace is over, however long they would wait', async () => {
    const { fleet, locks } = alone({ shutdownGraceMs: 100 });
    const hangs = (): Promise<void> => new Promise(() => {});
    const waiting = gate<unknown>();
    void locks.withLock('k', { onLost: 'ignore' }, async () => {
      void locks.withLock('k', hangs);
      await locks.withLock('k', { waitMs: Infinity }, hangs).catch(waiting.open);
    });
    await fleet.clock.settle();
    await fleet.clock.runUntil(locks.close());
    await expect(waiting.promise).resolves.toBeInstanceOf(LockLostError);
  });

  it('is one shutdown when it is asked for twice: both are over when the last hold has ended', async () => {
    const { fleet, locks } = alone({ shutdownGraceMs: 5_000 });
    const goesOn = gate();
    const work = locks.withLock(['k', 'l'], () => goesOn.promise);
    await fleet.clock.settle();
    const closing = [locks.close(), locks.close()];
    const since = fleet.clock.now();
    goesOn.open();
    await fleet.clock.runUntil(Promise.all([work, ...closing]));
    expect(fleet.clock.now()).toBe(since);
  });

  it('does not wait for holds that have lost their lease', async () => {
    const { fleet, locks } = alone({ shutdownGraceMs: 10_000 });
    const [lost, kept] = [await locks.acquire('k', { leaseMs: 200, renew: false }), await locks.acquire('l')];
    await fleet.clock.advance(201);
    expect(await lost.release()).toBe('lost');
    const closing = locks.close();
    await fleet.clock.advance(1_000);
    kept.assertHeld();
    const since = fleet.clock.now();
    await kept.release();
    await fleet.clock.runUntil(closing);
    expect(fleet.clock.now()).toBe(since);
  });

  it('aborts the signals of those who overstay and does not release under their feet', async () => {
    const { fleet, locks, wire } = alone({ shutdownGraceMs: 1_000 });
    const lease = await locks.acquire('k');
    await fleet.clock.runUntil(locks.close());
    expect(lease.signal.aborted).toBe(true);
    expect(wire.sent.release).toBe(0);
    expect(await fleet.process().locks.isLocked('k')).toBe(true);
    expect(await lease.release()).toBe('lost');
  });

  it('names in one warning what is still held when the grace is over, and not each loss by itself', async () => {
    const { clock, locks, log } = setUp(1_000);
    const work = locks.withLock('report:1', { label: 'ReportService.build' }, () => locks.withLock('report:1', () => pause(clock, 2_000)));
    await clock.advance(10);
    await locks.acquire(['a', 'b']);
    await clock.runUntil(locks.close());
    expect(log).toEqual([
      `The shutdown waited 1000 ms (shutdownGraceMs), and work still goes on under 2 holds: 'report:1' by ReportService.build for 1010 ms; ` +
        `'a', 'b' for 1000 ms. Their signals have aborted; the locks stay taken until their leases end.`,
    ]);
    await expect(clock.runUntil(work)).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('that is announced goes on serving calls, also after the grace, which ends what holds and waits by then', async () => {
    const { fleet, locks } = alone({ shutdownGraceMs: 1_000 });
    const lease = await locks.acquire('k');
    const waiting = expect(locks.acquire('k', { waitMs: Infinity })).rejects.toThrow(LockClosedError);
    await fleet.clock.settle();
    locks.announceShutdown();
    await (await locks.acquire('other')).release();
    await fleet.clock.advance(999);
    lease.assertHeld();
    await fleet.clock.advance(2);
    await waiting;
    expect(lease.signal.aborted).toBe(true);
    await (await fleet.clock.runUntil(locks.acquire('other'))).release();
    await fleet.clock.runUntil(locks.close());
    await expect(locks.acquire('other')).rejects.toThrow(LockClosedError);
  });
});

/** What a shutdown waits for, for how long, and what it lets go of in the end. */
const { commandTimeoutMs } = resolveDefaults();

function setUp(shutdownGraceMs: number) {
  const fleet = new Fleet();
  const log: string[] = [];
  const { locks, wire } = fleet.process({ shutdownGraceMs }, undefined, ({ message }: Finding) => log.push(message));
  return { fleet, clock: fleet.clock, locks, wire, log, other: fleet.process().locks };
}

describe('The grace of a shutdown', () => {
  it('counts from its announcement, whenever the shutdown begins, and keeps the process alive', async () => {
    const { clock, locks } = setUp(1_000);
    await locks.acquire('k');
    const since = clock.now();
    locks.announceShutdown();
    await clock.advance(600);
    expect(clock.isKeptAlive).toBe(true);
    await clock.runUntil(locks.close());
    expect([clock.now() - since, clock.isKeptAlive]).toEqual([1_000, false]);
  });

  it('is not exceeded for a request that is just giving its locks back', async () => {
    const { clock, locks, wire, other } = setUp(100);
    await other.acquire('b');
    const request = locks.acquire(['a', 'b']);
    request.catch(() => {});
    await clock.advance(10);
    wire.release = () => new Promise<never>(() => {});
    const since = clock.now();
    await clock.runUntil(locks.close());
    expect(clock.now() - since).toBe(100 + commandTimeoutMs);
  });

  it.each([1, 10, 12])('ends with a warning that names %i holds, the longest first and no more than ten', async (count) => {
    const { clock, locks, log } = setUp(1_000);
    for (let n = 0; n < count; n += 1) {
      await locks.acquire(`k${n}`);
      await clock.advance(10);
    }
    await clock.runUntil(locks.close());
    const named = Array.from({ length: Math.min(count, 10) }, (_, n) => `'k${n}' for ${1_000 + 10 * (count - n)} ms`).join('; ');
    const more = count === 12 ? '; and 2 more' : '';
    expect(log).toEqual([expect.stringContaining(` under ${count === 1 ? 'a hold' : `${count} holds`}: ${named}${more}. Their signals`)]);
  });
});

describe('A shutdown', () => {
  it('ends the tries of releases that were not answered', async () => {
    const { clock, locks, wire } = setUp(1_000);
    const lease = await locks.acquire('k', { leaseMs: 60_000 });
    const release = jest.spyOn(wire, 'release');
    wire.cut = true;
    expect(await lease.release()).toBe('unknown');
    await clock.runUntil(locks.close());
    await clock.advance(300);
    release.mockClear();
    await clock.advance(30_000);
    expect(release).not.toHaveBeenCalled();
  });
});

/** Tickets in a process that shuts down: it adopts nothing any more, and keeps nothing that it was about to adopt. */
describe('A process that shuts down', () => {
  it('adopts nothing any more, and may hand off what it holds', async () => {
    const fleet = new Fleet();
    const [giver, worker] = [fleet.process(), fleet.process()];
    const lease: Lease = await giver.locks.acquire('k');
    const theirs = await (await worker.locks.acquire('other')).handOff();
    const closing = giver.locks.close();
    const { commands } = giver.wire;
    await expect(giver.locks.adopt(theirs)).rejects.toBeInstanceOf(LockClosedError);
    expect(giver.wire.commands).toBe(commands);
    const ticket = await lease.handOff();
    await fleet.clock.runUntil(closing);
    await (await worker.locks.adopt(ticket)).release();
    await (await worker.locks.adopt(theirs)).release();
    expect(fleet.store.size).toBe(0);
  });

  it.each([true, false])('gives back what an adoption on its way brings, and lets no work begin, and its close waits for that; another hold goes on: %s', async (goesOn) => {
    const fleet = new Fleet();
    const [giver, worker] = [fleet.process(), fleet.process()];
    const ticket = await (await giver.locks.acquire('k')).handOff();
    const lease = goesOn ? await worker.locks.acquire('other') : undefined;
    worker.wire.slowMs = 50;
    const work = jest.fn();
    const refused = expect(worker.locks.withAdopted(ticket, work)).rejects.toBeInstanceOf(LockClosedError);
    const closing = worker.locks.close();
    if (goesOn) await fleet.clock.advance(100);
    worker.wire.slowMs = 0;
    await lease?.release();
    await fleet.clock.runUntil(closing);
    await refused;
    expect([work.mock.calls, fleet.store.size]).toEqual([[], 0]);
  });
});
