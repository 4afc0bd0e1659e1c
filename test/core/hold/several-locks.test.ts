import { describe, expect, it } from '@jest/globals';
import { pause } from '../../../lib/core/port/clock.js';
import { LockLostError, LockUsageError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { LockOptions } from '../../../lib/core/port/lock-options.js';
import { answering } from '../../support/answering.js';
import { alone, besideHolder, Fleet } from '../../support/locks.js';

/** Two locks, of which the second is free only after 3 s. */
async function holdsBothAfterWaiting(fleet: Fleet, options: LockOptions): Promise<Lease> {
  const other = await fleet.process().locks.acquire('b');
  const both = fleet.process().locks.acquire(['a', 'b'], options);
  await fleet.clock.advance(3_000);
  expect(await fleet.process().locks.tryAcquire('a')).toBeNull();
  await other.release();
  return fleet.clock.runUntil(both, 100);
}

async function expectFree(fleet: Fleet, ...keys: string[]): Promise<void> {
  const { locks } = fleet.process();
  for (const key of keys) expect(await locks.isLocked(key)).toBe(false);
}

it('L3: a call that does not wait says that the store took too long, and not that a lock is busy, when one answer after another takes its time', async () => {
  const { fleet, locks, wire } = alone();
  answering(wire, (_, ask) => pause(fleet.clock, 30).then(ask));
  const keys = Array.from({ length: 40 }, (_, n) => `row:${n}`);
  await expect(fleet.clock.runUntil(locks.withLock(keys, { waitMs: 0 }, () => {}))).rejects.toMatchObject({ code: 'LOCK_STORE' });
});

describe('A hold of several locks', () => {
  it('counts maxHoldMs from the moment all of them are there', async () => {
    const fleet = new Fleet();
    const lease = await holdsBothAfterWaiting(fleet, { maxHoldMs: 1_000, leaseMs: 5_000 });
    await fleet.clock.advance(950);
    lease.assertHeld();
    await fleet.clock.advance(51);
    expect(lease.signal.aborted).toBe(true);
    await fleet.clock.advance(10);
    await expectFree(fleet, 'a', 'b');
  });

  it('with fixed leases has all of their time from the moment all of them are there, and no more', async () => {
    const fleet = new Fleet();
    const lease = await holdsBothAfterWaiting(fleet, { renew: false, leaseMs: 1_000 });
    expect(lease.remainingMs).toBeGreaterThan(990);
    await fleet.clock.advance(950);
    lease.assertHeld();
    await fleet.clock.advance(60);
    expect(lease.signal.aborted).toBe(true);
    await expectFree(fleet, 'a', 'b');
  });

  it.each([true, false])('is not handed on with a fixed lease, and leaves the terms of the hold around it alone (renew: %s)', async (renew) => {
    const { fleet, locks } = alone();
    const outer = await locks.acquire('a', { leaseMs: 2_000, renew });
    const inner = await outer.run(() => locks.acquire(['a', 'b'], { renew: false, leaseMs: 2_000, maxHoldMs: 1_000 }));
    const next = locks.acquire('b', { renew: false, leaseMs: 2_000 });
    await inner.release();
    expect((await fleet.clock.runUntil(next)).remainingMs).toBe(2_000);
    await fleet.clock.advance(5_000);
    expect([outer.signal.aborted, await outer.release()]).toEqual([!renew, renew ? 'released' : 'lost']);
  });

  it('keeps the locks that it has while it waits for the rest, also one that was handed on to it by a neighbour with other terms', async () => {
    const { fleet, locks } = alone();
    const [elsewhere, first] = [await fleet.process().locks.acquire('b'), await locks.acquire('a', { leaseMs: 2_000 })];
    const neighbour = locks.withLock('a', { leaseMs: 2_000 }, () => 'done');
    const both = locks.acquire(['a', 'b'], { leaseMs: 2_000, maxHoldMs: 2_000 });
    await fleet.clock.settle();
    await first.release();
    await neighbour;
    await fleet.clock.advance(3_000);
    await elsewhere.release();
    const lease = await fleet.clock.runUntil(both);
    lease.assertHeld();
    expect(await lease.release()).toBe('released');
  });

  it('for reading that is released when it hears of its end takes nothing from the readers beside it', async () => {
    const { fleet, locks } = alone();
    const short = await locks.acquire(['a', 'b'], { mode: 'read', leaseMs: 8_000, maxHoldMs: 1_500 });
    const beside = await locks.acquire('b', { mode: 'read', leaseMs: 8_000 });
    short.signal.addEventListener('abort', () => void short.release());
    await fleet.clock.advance(1_400);
    fleet.clock.block(200);
    expect(() => short.assertHeld()).toThrow(LockLostError);
    await fleet.clock.advance(100);
    beside.assertHeld();
    expect(await beside.release()).toBe('released');
    await expectFree(fleet, 'a', 'b');
  });

  it('begins within half a second though the store does not answer any more', async () => {
    const { fleet, locks, wire } = alone();
    wire.renew = () => new Promise<never>(() => {});
    const lease = await fleet.clock.runUntil(locks.acquire(['a', 'b'], { renew: false, leaseMs: 5_000 }), 501);
    expect(lease.remainingMs).toBeGreaterThan(4_000);
    expect(await lease.release()).toBe('released');
  });

  it('tells the fence of a key by the name that the caller gave it', async () => {
    const { locks } = new Fleet().process();
    const lease = await locks.acquire(['stock:{7}', 'stock:8']);
    expect(lease.fences.get('stock:{7}')).toBeGreaterThan(0);
    expect([...lease.fences.keys()]).toEqual(lease.keys);
  });

  it('of which an owner had one for writing is a hold of the others for reading', async () => {
    const { fleet, locks, other: first } = await besideHolder('a', { owner: 'saga-7' });
    const both = await locks.acquire(['a', 'b'], { owner: 'saga-7', mode: 'read' });
    const besideIt = await fleet.process().locks.tryAcquire('b', { mode: 'read' });
    expect(besideIt).not.toBeNull();
    expect(both.mode).toBe('read');
    both.run(() => {
      expect(locks.assertLocked('a')).toBe(both);
      expect(locks.assertLocked('b', 'read')).toBe(both);
      expect(() => locks.assertLocked('b')).toThrow('that code holds it for reading only');
    });
    for (const lease of [besideIt, both, first]) expect(await lease!.release()).toBe('released');
  });

  it('is all or nothing, in one order for everybody', async () => {
    const { fleet, locks } = alone();
    const lease = await locks.acquire(['b', 'a', 'b']);
    expect(lease.keys).toEqual(['a', 'b']);
    expect([...lease.fences.keys()]).toEqual(['a', 'b']);
    expect(() => lease.fence).toThrow(LockUsageError);
    await fleet.clock.runUntil(expect(fleet.process().locks.acquire(['c', 'b'], { waitMs: 100 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT', key: 'b' }));
    await lease.release();
    await expectFree(fleet, 'a', 'b');
    for (const keys of [[], undefined as never]) await expect(locks.acquire(keys)).rejects.toMatchObject({ code: 'LOCK_KEY' });
  });

  it('gives all back when one is lost', async () => {
    const { fleet, locks } = alone();
    const other = fleet.process();
    const c: Lease = await other.locks.acquire('c');
    const waiting = expect(locks.acquire(['a', 'c'], { waitMs: 10_000 })).rejects.toMatchObject({ code: 'LOCK_LOST', key: 'a' });
    await fleet.clock.settle();
    await other.locks.forceRelease('a');
    await fleet.clock.runUntil(waiting);
    await c.release();
    expect(await locks.isLocked('c')).toBe(false);
  });

  it('taken in both orders at once never deadlocks', async () => {
    const fleet = new Fleet();
    const [one, two] = [fleet.process(), fleet.process()];
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
});

describe('A request for several locks', () => {
  it('that is aborted between two of them ends at once with the reason', async () => {
    const { fleet, locks, other } = await besideHolder('b');
    const first = await locks.acquire('a');
    const abort = new AbortController();
    const several = expect(locks.acquire(['a', 'b'], { signal: abort.signal, waitMs: Infinity })).rejects.toBe('mine');
    void first.release();
    abort.abort('mine');
    await several;
    await other.release();
    await fleet.clock.settle();
    expect(await locks.isLocked('a')).toBe(false);
  });

  it('that is aborted while its fixed leases begin leaves nothing behind', async () => {
    const { fleet, locks, wire } = alone();
    const abort = new AbortController();
    const several = expect(locks.acquire(['a', 'b'], { renew: false, signal: abort.signal })).rejects.toBe('mine');
    wire.slowMs = 100;
    while (wire.sent.renew === 0) await fleet.clock.advance(10);
    abort.abort('mine');
    await fleet.clock.runUntil(several);
    await expectFree(fleet, 'a', 'b');
  });

  it('of which a hold around it has one leaves that hold as it was when another one stays busy, and is told at once', async () => {
    const { fleet, locks } = await besideHolder('b');
    const outer = await locks.acquire('a');
    for (const waitMs of [100, 200]) {
      const options = { waitMs, expectsBusy: true };
      const since = fleet.clock.now();
      await fleet.clock.runUntil(outer.run(() => expect(locks.acquire(['a', 'b'], options)).rejects.toMatchObject({ key: 'b' })));
      expect(fleet.clock.now() - since).toBe(waitMs);
    }
    expect([await outer.release(), await locks.isLocked('a')]).toEqual(['released', false]);
  });

  it('that got some of them but not all leaves nothing of their minHoldMs behind', async () => {
    const { fleet, locks } = await besideHolder('b');
    const refused = expect(locks.acquire(['a', 'b'], { minHoldMs: 20_000, waitMs: 300 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    const next = locks.acquire('a', { waitMs: 400 });
    await fleet.clock.advance(301);
    await refused;
    await (await fleet.clock.runUntil(next, 50)).release();
    expect(await locks.tryAcquire(['a', 'b'], { minHoldMs: 20_000 })).toBeNull();
    expect(await locks.isLocked('a')).toBe(false);
  });

  it('of which a hold around it rules one out is refused before it asks for any of them', async () => {
    const { locks, wire } = await besideHolder('a');
    await locks.withLock('b', { mode: 'read' }, async () => {
      const before = wire.commands;
      await expect(locks.acquire(['a', 'b'])).rejects.toThrow(LockUsageError);
      expect(wire.commands).toBe(before);
    });
  });
});

/** A request for several locks that ends without them: what it waits for, what it gives back, and what it leaves behind. */
describe('A request for several locks', () => {
  it('that one of them refuses is answered when all others were given back, within half a second', async () => {
    const { fleet, locks, wire } = await besideHolder('c');
    const release = wire.release.bind(wire);
    wire.release = async (request) => (await pause(fleet.clock, request.key === 'a' ? 20 : 200), release(request));
    const since = fleet.clock.now();
    await expect(fleet.clock.runUntil(locks.acquire(['a', 'b', 'c'], { waitMs: 300 }))).rejects.toMatchObject({ code: 'LOCK_TIMEOUT', key: 'c' });
    expect(fleet.clock.now() - since).toBe(500);
    expect([await locks.isLocked('a'), await locks.isLocked('b')]).toEqual([false, false]);
  });

  it.each([['while its fixed leases begin', { renew: false }], ['while it waits for one', {}]])('that a shutdown meets %s is refused by the name of the first', async (when, options) => {
    const { fleet, locks, wire } = alone();
    wire.renew = () => new Promise<never>(() => {});
    const goesOn = await locks.acquire('goes on');
    const other = when.includes('waits') ? await fleet.process().locks.acquire('b') : undefined;
    const request = locks.acquire(['a', 'b'], options);
    request.catch(() => {});
    await fleet.clock.advance(100);
    const closing = locks.close();
    const refused = await fleet.clock.runUntil(request.catch((error: unknown) => error));
    expect(refused).toMatchObject({ code: 'LOCK_CLOSED', key: 'a' });
    await goesOn.release();
    await fleet.clock.runUntil(closing);
    await other?.release();
    expect([await fleet.process().locks.isLocked('a'), await fleet.process().locks.isLocked('b')]).toEqual([false, false]);
  });
});
