import { describe, expect, it } from '@jest/globals';
import { Schedule } from '../../../lib/core/lease/schedule.js';
import { resolveDefaults, resolveOptions } from '../../../lib/core/port/resolve-options.js';
import { Caller } from '../../../lib/core/queue/caller.js';
import { CallerLine } from '../../../lib/core/queue/caller-line.js';
import { FakeClock } from '../../support/fake-clock.js';

const clock = new FakeClock();

/** A caller that wants `k`, and what it is told. */
function caller(options: { waitMs?: number; signal?: AbortSignal } = {}, on = clock): { caller: Caller<string>; told: unknown[] } {
  const told: unknown[] = [];
  const resolved = resolveOptions({ waitMs: 5_000, ...options }, resolveDefaults());
  const waitBegan = () => (told.push('waiting'), (reason?: unknown) => void told.push(['wait ended', reason]));
  const wish = { key: 'k', options: resolved, until: on.now() + resolved.waitMs, insideHold: false, waitBegan };
  return { caller: new Caller<string>(wish, new Schedule(on), (value) => told.push(value), (reason) => told.push(reason)), told };
}

function lineOf(count: number): { line: CallerLine<string>; callers: Caller<string>[]; numbers: () => number[] } {
  const line = new CallerLine<string>();
  const callers = Array.from({ length: count }, () => caller().caller);
  for (const each of callers) line.add(each);
  return { line, callers, numbers: () => line.all().map((each) => callers.indexOf(each)) };
}

describe('The line of callers', () => {
  it('keeps their order while any of them leave', () => {
    for (const leaving of [[0], [1], [2], [0, 1], [1, 2], [2, 0], [0, 1, 2]]) {
      const { line, callers, numbers } = lineOf(3);
      for (const n of leaving) expect(line.remove(callers[n]!)).toBe(true);
      for (const n of leaving) expect([line.has(callers[n]!), line.remove(callers[n]!)]).toEqual([false, false]);
      const rest = [0, 1, 2].filter((n) => !leaving.includes(n));
      expect([numbers(), line.size, line.first]).toEqual([rest, rest.length, callers[rest[0]!]]);
      for (const n of rest) expect(line.has(callers[n]!)).toBe(true);
      const next = caller().caller;
      line.add(next);
      expect([line.all().at(-1) === next, line.size, line.arrivals, next.arrival]).toEqual([true, rest.length + 1, 4, 4]);
    }
  });

  it('brings callers forward in their order, and keeps the numbers of their arrival', () => {
    const { line, callers, numbers } = lineOf(5);
    line.bringForward((each) => callers.indexOf(each) % 2 === 1);
    expect([numbers(), line.size, line.arrivals, callers.map(({ arrival }) => arrival)]).toEqual([[1, 3, 0, 2, 4], 5, 5, [1, 2, 3, 4, 5]]);
    line.bringForward(() => true);
    expect(numbers()).toEqual([1, 3, 0, 2, 4]);
  });

  it('finds the first that fits, and knows whether all do', () => {
    const { line, callers } = lineOf(3);
    expect(line.find((each) => each !== callers[0])).toBe(callers[1]);
    expect(line.find(() => false)).toBeUndefined();
    expect([line.every(({ arrival }) => arrival > 0), line.every((each) => each !== callers[2]), new CallerLine().every(() => false)]).toEqual([true, false, true]);
  });
});

describe('A caller that waits', () => {
  it('gives up when its waitMs is over; one that does not wait after 800 ms without an answer', async () => {
    for (const [waitMs, afterMs] of [[5_000, 5_000], [1, 1], [0, 800]] as const) {
      const time = new FakeClock({ now: 0 });
      const gaveUp: unknown[] = [];
      caller({ waitMs }, time).caller.startWaiting({ giveUp: (_, reason) => void gaveUp.push(reason, time.now()) });
      await time.advance(10_000);
      expect(gaveUp).toEqual([undefined, afterMs]);
    }
  });

  it('gives up when its signal aborts, also before, and not after it was settled', () => {
    const gaveUp: unknown[] = [];
    const keeper = { giveUp: (_: unknown, reason: unknown) => void gaveUp.push(reason) };
    const stop = new AbortController();
    caller({ signal: stop.signal }).caller.startWaiting(keeper);
    const settled = caller({ signal: stop.signal });
    settled.caller.startWaiting(keeper);
    settled.caller.resolve('lease');
    stop.abort('enough');
    caller({ signal: stop.signal }).caller.startWaiting(keeper);
    expect(gaveUp).toEqual(['enough', 'enough']);
  });

  it('says once that it waits, and how that ended; and nothing when it was settled before', () => {
    const [granted, refused, settled] = [caller(), caller(), caller()];
    for (const { caller: each } of [granted, refused]) for (let n = 0; n < 2; n++) each.tellWaiting();
    granted.caller.resolve('lease');
    refused.caller.reject('no');
    settled.caller.resolve('lease');
    settled.caller.tellWaiting();
    expect([granted.told, refused.told, settled.told]).toEqual([['waiting', ['wait ended', undefined], 'lease'], ['waiting', ['wait ended', 'no'], 'no'], ['lease']]);
  });

  it('hears that its wait has ended also when who is told of the wait ends it at once, with or without wanting to know', () => {
    for (const wantsToKnow of [true, false]) {
      const told: unknown[] = [];
      const { wish } = caller().caller;
      const waitBegan = () => (each.reject('ended by a listener'), wantsToKnow ? (reason?: unknown) => void told.push(['wait ended', reason]) : undefined);
      const each: Caller<string> = new Caller<string>({ ...wish, waitBegan }, new Schedule(clock), () => undefined, (reason) => told.push(reason));
      each.tellWaiting();
      expect(told).toEqual(['ended by a listener', ...(wantsToKnow ? [['wait ended', undefined]] : [])]);
    }
  });

  it('leaves no timer behind when it is settled', async () => {
    const time = new FakeClock();
    const { caller: each } = caller({}, time);
    each.startWaiting({ giveUp: () => undefined });
    each.reject('no');
    await time.advance(20);
    expect(time.pendingTimers).toBe(0);
  });
});
