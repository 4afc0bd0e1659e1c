/** What is remembered of calls that wait while they hold locks, and what it costs to look through them. */
import { describe, expect, it, jest } from '@jest/globals';
import { Schedule } from '../../../lib/core/lease/schedule.js';
import { WaitingCalls } from '../../../lib/core/hold/waiting-calls.js';
import { Call } from '../../../lib/core/queue/call.js';
import { resolveDefaults, resolveOptions } from '../../../lib/core/port/resolve-options.js';
import { FakeClock } from '../../support/fake-clock.js';
import { Fleet } from '../../support/locks.js';

describe('A call that waits', () => {
  it('is forgotten though it is served while it is told that it waits', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const around = await locks.acquire('b');
    const sibling = await around.run(() => locks.acquire('b'));
    const served = locks.events.subscribe(({ type, key }) => {
      if (type === 'waiting' && key === 'b') void sibling.release();
    });
    const both = await fleet.clock.runUntil(around.run(() => locks.acquire(['a', 'b'])));
    await Promise.all([both, around].map((lease) => lease.release()));
    served.unsubscribe();

    await fleet.process().locks.acquire('a');
    const refused = locks.withLock('b', () => locks.withLock('a', { waitMs: 300 }, () => 1)).catch((error: unknown) => error);
    expect(await fleet.clock.runUntil(refused)).toMatchObject({ code: 'LOCK_TIMEOUT', held: ['b'], cycle: undefined });
  });

  it('is compared with a hundred of the calls that hold the lock, however many there are', () => {
    const clock = new FakeClock();
    const waiting = new WaitingCalls(clock);
    const keys = jest.fn(() => ['k']);
    const hold = Object.defineProperty({ keys: [], isOver: false }, 'keys', { get: keys });
    const around = { hold, outer: undefined };
    const host = { schedule: new Schedule(clock), waitBegan: () => undefined };
    const begin = (): unknown => waiting.begin(new Call(['k'], resolveOptions({}, resolveDefaults()), 0, { around, insideHold: true }, host));
    for (let call = 1; call <= 1_000; call += 1) begin();
    keys.mockClear();
    begin();
    // Once for its own locks.
    expect(keys).toHaveBeenCalledTimes(1 + 100);
  });
});
