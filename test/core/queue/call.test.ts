import { describe, expect, it } from '@jest/globals';
import { Schedule } from '../../../lib/core/lease/schedule.js';
import { resolveDefaults, resolveOptions } from '../../../lib/core/port/resolve-options.js';
import type { StoreLease } from '../../../lib/core/lease/store-lease.js';
import { Call, CallLine, type WaitEnded } from '../../../lib/core/queue/call.js';
import { FakeClock } from '../../support/fake-clock.js';

const clock = new FakeClock();

const lease = {} as StoreLease;

/** A call that wants `k`, and what it is told. */
function calling(options: { waitMs?: number; signal?: AbortSignal } = {}, on = clock, waitBegan?: () => WaitEnded | undefined): { call: Call; told: unknown[] } {
  const told: unknown[] = [];
  const resolved = resolveOptions({ waitMs: 5_000, ...options }, resolveDefaults());
  const tellsWait = () => (told.push('waiting'), (reason?: unknown) => void told.push(['wait ended', reason]));
  const call = new Call(['k'], resolved, on.now(), { around: undefined, insideHold: false }, { schedule: new Schedule(on), waitBegan: waitBegan ?? tellsWait });
  call.settlesBy(() => told.push('lease'), (reason) => told.push(reason));
  return { call, told };
}

function lineOf(count: number): { line: CallLine; callers: Call[]; numbers: () => number[] } {
  const line = new CallLine();
  const callers = Array.from({ length: count }, () => calling().call);
  for (const each of callers) line.add(each);
  return { line, callers, numbers: () => line.all().map((each) => callers.indexOf(each)) };
}

describe('The line of calls', () => {
  it('keeps their order while any of them leave', () => {
    for (const leaving of [[0], [1], [2], [0, 1], [1, 2], [2, 0], [0, 1, 2]]) {
      const { line, callers, numbers } = lineOf(3);
      for (const n of leaving) expect(line.remove(callers[n]!)).toBe(true);
      for (const n of leaving) expect([line.has(callers[n]!), line.remove(callers[n]!)]).toEqual([false, false]);
      const rest = [0, 1, 2].filter((n) => !leaving.includes(n));
      expect([numbers(), line.size, line.first]).toEqual([rest, rest.length, callers[rest[0]!]]);
      for (const n of rest) expect(line.has(callers[n]!)).toBe(true);
      const next = calling().call;
      line.add(next);
      expect([line.all().at(-1) === next, line.size, line.arrivals, next.arrival]).toEqual([true, rest.length + 1, 4, 4]);
    }
  });

  it('brings calls forward in their order, and keeps the numbers of their arrival', () => {
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
    expect([line.every(({ arrival }) => arrival > 0), line.every((each) => each !== callers[2]), new CallLine().every(() => false)]).toEqual([true, false, true]);
  });
});

describe('A call that waits', () => {
  it('gives up when its waitMs is over; one that does not wait after 800 ms without an answer', async () => {
    for (const [waitMs, afterMs] of [[5_000, 5_000], [1, 1], [0, 800]] as const) {
      const time = new FakeClock({ now: 0 });
      const gaveUp: unknown[] = [];
      calling({ waitMs }, time).call.startWaiting({ giveUp: (_, reason) => void gaveUp.push(reason, time.now()) });
      await time.advance(10_000);
      expect(gaveUp).toEqual([undefined, afterMs]);
    }
  });

  it('gives up when its signal aborts, also before, and not after it was settled', () => {
    const gaveUp: unknown[] = [];
    const keeper = { giveUp: (_: unknown, reason: unknown) => void gaveUp.push(reason) };
    const stop = new AbortController();
    calling({ signal: stop.signal }).call.startWaiting(keeper);
    const settled = calling({ signal: stop.signal });
    settled.call.startWaiting(keeper);
    settled.call.serve(lease);
    stop.abort('enough');
    calling({ signal: stop.signal }).call.startWaiting(keeper);
    expect(gaveUp).toEqual(['enough', 'enough']);
  });

  it('says once that it waits, and how that ended; and nothing when it was settled before', () => {
    const [granted, refused, settled] = [calling(), calling(), calling()];
    for (const { call: each } of [granted, refused]) for (let n = 0; n < 2; n++) each.tellWaiting();
    granted.call.serve(lease);
    refused.call.reject('no');
    settled.call.serve(lease);
    settled.call.tellWaiting();
    expect([granted.told, refused.told, settled.told]).toEqual([['waiting', ['wait ended', undefined], 'lease'], ['waiting', ['wait ended', 'no'], 'no'], ['lease']]);
  });

  it('hears that its wait has ended also when who is told of the wait ends it at once, with or without wanting to know', () => {
    for (const wantsToKnow of [true, false]) {
      const waitBegan = () => (each.reject('ended by a listener'), wantsToKnow ? (reason?: unknown) => void told.push(['wait ended', reason]) : undefined);
      const { call: each, told } = calling({}, clock, waitBegan);
      each.tellWaiting();
      expect(told).toEqual(['ended by a listener', ...(wantsToKnow ? [['wait ended', undefined]] : [])]);
    }
  });

  it('leaves no timer behind when it is settled', async () => {
    const time = new FakeClock();
    const { call: each } = calling({}, time);
    each.startWaiting({ giveUp: () => undefined });
    each.reject('no');
    await time.advance(20);
    expect(time.pendingTimers).toBe(0);
  });
});
