/** What is remembered of calls that wait while they hold locks, and what it costs to look through them. */
import { describe, expect, it, jest } from '@jest/globals';
import { Schedule } from '../../../lib/core/lease/schedule.js';
import { WaitingCalls } from '../../../lib/core/hold/waiting-calls.js';
import { Call } from '../../../lib/core/queue/call.js';
import { resolveDefaults, resolveOptions } from '../../../lib/core/port/options.js';
import { FakeClock } from '../../support/fake-clock.js';

describe('A call that waits', () => {
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
