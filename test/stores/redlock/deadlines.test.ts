/** Deadlines of questions to nodes: each is told in time, and none costs a timer of its own. */
import { describe, expect, it } from '@jest/globals';
import { delay, type Clock } from '../../../lib/core/port/clock.js';
import { Deadlines } from '../../../lib/stores/redlock/deadlines.js';
import { poll } from '../../../lib/stores/redlock/poll.js';
import { FakeClock } from '../../support/fake-clock.js';

/** A clock that counts the timers that were set on it. */
function counting(clock: FakeClock): Clock & { timersSet: number } {
  const counted = Object.create(clock) as Clock & { timersSet: number };
  counted.timersSet = 0;
  counted.setTimer = (callback, delayMs) => {
    counted.timersSet += 1;
    return clock.setTimer(callback, delayMs);
  };
  return counted;
}

describe('Deadlines', () => {
  it('are told each at its time, whatever the order in which they were set', async () => {
    const clock = new FakeClock();
    const deadlines = new Deadlines(clock);
    const told: number[] = [];
    const start = clock.now();
    for (const at of [300, 100, 200]) deadlines.set({ at: start + at, due: () => void told.push(Math.round(clock.now() - start)) });
    await clock.runUntil(delay(clock, 400));
    expect(told).toEqual([100, 200, 300]);
  });

  it('are not told once they are off', async () => {
    const clock = new FakeClock();
    const deadlines = new Deadlines(clock);
    let told = 0;
    const deadline = { at: clock.now() + 50, due: () => void ++told };
    deadlines.set(deadline);
    deadlines.cancel(deadline);
    await clock.runUntil(delay(clock, 100));
    expect(told).toBe(0);
  });

  it('of questions that are answered cost no timer but the first', async () => {
    const clock = new FakeClock();
    const counted = counting(clock);
    const deadlines = new Deadlines(counted);
    const nodes = [{ name: 'a', heardAt: 0, fellSilent: () => {} }];
    const questions = async (): Promise<void> => {
      for (let n = 0; n < 50; n++) await poll({ nodes, deadlines, timeoutMs: 500, ask: (_, hear) => hear({ kind: 'answer', answer: 'yes' }), decide: ({ size }) => (size === 1 ? 'done' : undefined) });
    };
    await clock.runUntil(questions());
    expect(counted.timersSet).toBe(1);
    await clock.runUntil(delay(clock, 1_000));
    expect(counted.timersSet).toBe(1);
  });
});
