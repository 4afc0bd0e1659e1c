/** A request for several locks that ends without them: what it waits for, what it gives back, and what it leaves behind. */
import { describe, expect, it, jest } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import { LockClosedError } from '../../../lib/core/port/errors.js';
import type { WithLockOptions } from '../../../lib/core/port/lock-options.js';
import { resolveDefaults, resolveOptions } from '../../../lib/core/port/resolve-options.js';
import { isLost, type Taken } from '../../../lib/core/hold/hold.js';
import { takeAll, type Gathering } from '../../../lib/core/hold/several-keys.js';
import { Call } from '../../../lib/core/queue/call.js';
import { Schedule } from '../../../lib/core/lease/schedule.js';
import { FakeClock } from '../../support/fake-clock.js';
import { leaseWith } from '../../support/leases.js';
import { Fleet } from '../../support/locks.js';

describe('A request for several locks', () => {
  it('that one of them refuses is answered when all others were given back, within half a second', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const other = await fleet.process().locks.acquire('c');
    const release = wire.release.bind(wire);
    wire.release = async (request) => (await delay(fleet.clock, request.key === 'a' ? 20 : 200), release(request));
    const since = fleet.clock.now();
    await expect(fleet.clock.runUntil(locks.acquire(['a', 'b', 'c'], { waitMs: 300 }))).rejects.toMatchObject({ code: 'LOCK_TIMEOUT', key: 'c' });
    expect(fleet.clock.now() - since).toBe(500);
    expect([await locks.isLocked('a'), await locks.isLocked('b')]).toEqual([false, false]);
    await other.release();
  });

  it('that are renewed renews none of them when it has all', async () => {
    const { locks, wire } = new Fleet().process();
    const lease = await locks.acquire(['a', 'b']);
    expect(wire.sent.renew).toBe(0);
    await lease.release();
  });

  it('that is aborted while its fixed leases begin gives all of them back, and ends with the reason', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    wire.renew = () => new Promise<never>(() => {});
    const stop = new AbortController();
    const request = locks.acquire(['a', 'b'], { renew: false, signal: stop.signal });
    request.catch(() => {});
    await fleet.clock.advance(100);
    stop.abort(new Error('enough'));
    await expect(fleet.clock.runUntil(request)).rejects.toThrow('enough');
    await fleet.clock.settle();
    expect([await locks.isLocked('a'), await locks.isLocked('b')]).toEqual([false, false]);
  });

  it.each([['while its fixed leases begin', { renew: false }], ['while it waits for one', {}]])('that a shutdown meets %s is refused by the name of the first', async (when, options) => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    wire.renew = () => new Promise<never>(() => {});
    const goesOn = await locks.acquire('goes on');
    const other = when.includes('waits') ? await fleet.process().locks.acquire('b') : undefined;
    const request = locks.acquire(['a', 'b'], options);
    request.catch(() => {});
    await fleet.clock.advance(100);
    const closing = locks.close();
    const refused = await fleet.clock.runUntil(request.catch((error: unknown) => error));
    expect(refused).toBeInstanceOf(LockClosedError);
    expect(refused).toMatchObject({ key: 'a' });
    await goesOn.release();
    await fleet.clock.runUntil(closing);
    await other?.release();
    expect([await fleet.process().locks.isLocked('a'), await fleet.process().locks.isLocked('b')]).toEqual([false, false]);
  });

  it('is told of a loss no more once it has ended', async () => {
    const { leases, taking } = gathering();
    expect(await taking).toEqual(leases);
    expect(leases.map(({ followers }) => followers.length)).toEqual([0, 0]);
  });

  it('whose signal aborts in the moment at which it has all of them asks for nothing more', async () => {
    const stop = new AbortController();
    const { renewNow, taking } = gathering({ renew: false, signal: stop.signal }, () => stop.abort(new Error('enough')));
    await expect(taking).rejects.toThrow('enough');
    expect(renewNow).not.toHaveBeenCalled();
  });
});

/** A request for two locks that are granted at once; `atLast` is called in the moment at which it gets the second one. */
function gathering(given: WithLockOptions = {}, atLast: () => void = () => {}) {
  const clock = new FakeClock();
  const leases = [leaseWith(), leaseWith()];
  const options = resolveOptions(given, resolveDefaults());
  const renewNow = jest.fn(async () => {});
  const watchdog = { schedule: new Schedule(clock), renewNow };
  const shutdown = { holdBegan: () => {}, holdEnded: () => {}, refusal: () => undefined };
  const call = new Call(['a', 'b'], options, clock.now(), { around: undefined, insideHold: false }, { schedule: watchdog.schedule, waitBegan: () => undefined });
  let entered = 0;
  const takeOne = async (): Promise<Taken> => {
    const lease = leases[entered]!;
    entered += 1;
    lease.admit(options, clock.now());
    if (entered === leases.length) atLast();
    return lease;
  };
  const host = { clock, watchdog, context: { find: () => undefined }, shutdown, takeOne } as unknown as Gathering;
  return { leases, renewNow, taking: clock.runUntil(takeAll(call, host)) };
}

describe('Locks that a call has got', () => {
  it('are lost when one of them is', () => {
    const [held, lost] = [{ isLost: false }, { isLost: true }] as unknown as [Taken, Taken];
    expect([isLost([held, lost]), isLost([lost, held]), isLost([held, held]), isLost(lost), isLost(held)]).toEqual([true, true, false, true, false]);
  });
});
