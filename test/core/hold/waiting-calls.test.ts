/** What is remembered of calls that wait while they hold locks, and what it costs to look through them. */
import { describe, expect, it, jest } from '@jest/globals';
import { WaitingCalls } from '../../../lib/core/hold/waiting-calls.js';
import { Schedule } from '../../../lib/core/lease/schedule.js';
import { LockTimeoutError, type WaitFacts } from '../../../lib/core/port/errors.js';
import { resolveDefaults, resolveOptions } from '../../../lib/core/port/options.js';
import { Call } from '../../../lib/core/queue/call.js';
import { FakeClock } from '../../support/fake-clock.js';
import { alone, gate } from '../../support/locks.js';

describe('A call that waits', () => {
  it('is compared with a hundred of the calls that hold the lock, however many there are', () => {
    const clock = new FakeClock();
    const waiting = new WaitingCalls(clock);
    const keys = jest.fn(() => ['k']);
    const hold = Object.defineProperty({ keys: [], isOver: false, holdCount: 1, around: undefined }, 'keys', { get: keys });
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

/** Circles of calls that wait for each other: which are found, for how long they are told, and what is no circle. */
interface Waits {
  readonly clock: FakeClock;
  readonly waiting: WaitingCalls;
  /** A call that holds some locks waits for another one. Returns how it gives up. */
  readonly waits: (held: readonly string[], key: string) => () => WaitFacts;
}

function setUp(): Waits {
  const clock = new FakeClock();
  const waiting = new WaitingCalls(clock);
  const waits = (held: readonly string[], key: string): (() => WaitFacts) => {
    const around = { hold: { isOver: false, keys: held, holdCount: 1, around: undefined }, outer: undefined };
    const ended = waiting.begin(new Call([key], resolveDefaults(), clock.now(), { around, insideHold: true }, { schedule: new Schedule(clock), waitBegan: () => undefined }));
    return () => {
      const error = new LockTimeoutError('busy', { key, waitMs: 0 });
      ended?.(error);
      return waiting.factsOf(error);
    };
  };
  return { clock, waiting, waits };
}

/** So many calls, each of which holds a lock and waits for that of the next. */
function circleOf({ waits }: Waits, calls: number): (() => WaitFacts)[] {
  return Array.from({ length: calls }, (_, n) => waits([`k${n}`], `k${(n + 1) % calls}`));
}

describe('A circle of calls', () => {
  it('is found when it has sixteen calls, and not looked for when it has more', () => {
    expect(circleOf(setUp(), 16).at(-1)!().cycle).toHaveLength(16);
    expect(circleOf(setUp(), 17).at(-1)!().cycle).toBeUndefined();
  });

  it.each([[0, true], [1_000, true], [1_001, false]])('is told %i ms after its end by the calls that were in it: %s', async (afterMs, isTold) => {
    const on = setUp();
    const [first, second] = circleOf(on, 2);
    expect(first!().cycle).toHaveLength(2);
    await on.clock.advance(afterMs);
    expect(second!().cycle !== undefined).toBe(isTold);
  });

  it('is forgotten with its calls, and so are their keys', () => {
    const on = setUp();
    for (const stop of circleOf(on, 5)) stop();
    expect((on.waiting as unknown as { byHeldKey: Map<string, unknown> }).byHeldKey.size).toBe(0);
  });
});

describe('Calls that wait', () => {
  it('are in no circle when one of them waits for a permit, which others may give back', async () => {
    const { fleet, locks } = alone();
    await fleet.process().locks.acquire('p', { permits: 2 });
    const [one, two] = [gate(), gate()];
    const refused = (call: Promise<unknown>): Promise<LockTimeoutError> => call.then(() => undefined as never, (error: LockTimeoutError) => error);
    const first = locks.withLock('p', { permits: 2 }, async () => {
      one.open();
      await two.promise;
      return refused(locks.withLock('a', { waitMs: 300 }, () => 'ran'));
    });
    const second = locks.withLock('a', async () => {
      two.open();
      await one.promise;
      return refused(locks.withLock('p', { permits: 2, waitMs: 300 }, () => 'ran'));
    });
    const errors = await fleet.clock.runUntil(Promise.all([first, second]));
    expect(errors.map(({ code, cycle }) => [code, cycle])).toEqual([['LOCK_TIMEOUT', undefined], ['LOCK_TIMEOUT', undefined]]);
  });

  it('do not hold what a hold around them held that has ended', async () => {
    const { fleet, locks } = alone();
    await fleet.process().locks.acquire('c');
    const [begun, ended] = [gate(), gate()];
    let inner!: Promise<unknown>;
    await locks.withLock('a', async () => {
      inner = locks.withLock('b', async () => {
        begun.open();
        await ended.promise;
        return locks.acquire('c', { waitMs: 300 }).catch((error: unknown) => error);
      });
      await begun.promise;
    });
    ended.open();
    const error = await fleet.clock.runUntil(inner);
    expect(error).toMatchObject({ code: 'LOCK_TIMEOUT', held: ['b'] });
  });
});
