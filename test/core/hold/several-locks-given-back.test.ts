/** A request for several locks that ends without them: what it waits for, what it gives back, and what it leaves behind. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import { LockClosedError } from '../../../lib/core/port/errors.js';
import { alone } from '../../support/locks.js';

describe('A request for several locks', () => {
  it('that one of them refuses is answered when all others were given back, within half a second', async () => {
    const { fleet, locks, wire } = alone();
    const other = await fleet.process().locks.acquire('c');
    const release = wire.release.bind(wire);
    wire.release = async (request) => (await delay(fleet.clock, request.key === 'a' ? 20 : 200), release(request));
    const since = fleet.clock.now();
    await expect(fleet.clock.runUntil(locks.acquire(['a', 'b', 'c'], { waitMs: 300 }))).rejects.toMatchObject({ code: 'LOCK_TIMEOUT', key: 'c' });
    expect(fleet.clock.now() - since).toBe(500);
    expect([await locks.isLocked('a'), await locks.isLocked('b')]).toEqual([false, false]);
    await other.release();
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
    expect(refused).toBeInstanceOf(LockClosedError);
    expect(refused).toMatchObject({ key: 'a' });
    await goesOn.release();
    await fleet.clock.runUntil(closing);
    await other?.release();
    expect([await fleet.process().locks.isLocked('a'), await fleet.process().locks.isLocked('b')]).toEqual([false, false]);
  });
});
