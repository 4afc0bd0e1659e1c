/** The fake clock itself: other tests lean on these promises. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../lib/core/port/clock.js';
import { FakeClock } from './fake-clock.js';

describe('FakeClock', () => {
  it('fires timers at their own instants, those of one instant in the order they were set', async () => {
    const clock = new FakeClock({ now: 0 });
    const fired: string[] = [];
    const note = (name: string) => () => void fired.push(`${name}@${clock.now()}`);
    clock.setTimer(note('late'), 20);
    clock.setTimer(note('first'), 10);
    clock.setTimer(note('second'), 10);
    await clock.advance(15);
    expect(fired).toEqual(['first@10', 'second@10']);
    expect(clock.now()).toBe(15);
    expect(clock.pendingTimers).toBe(1);
  });

  it('does not fire a timer that was cleared', async () => {
    const clock = new FakeClock();
    let fired = false;
    clock.clearTimer(clock.setTimer(() => (fired = true), 10));
    await clock.advance(20);
    expect(fired).toBe(false);
  });

  it('lets promises go on between two timers', async () => {
    const clock = new FakeClock({ now: 0 });
    const seen: number[] = [];
    void (async () => {
      for (let turn = 0; turn < 3; turn++) {
        await delay(clock, 10);
        seen.push(clock.now());
      }
    })();
    await clock.advance(100);
    expect(seen).toEqual([10, 20, 30]);
  });

  it('runs until a promise settles and no further', async () => {
    const clock = new FakeClock({ now: 0 });
    clock.setTimer(() => undefined, 500);
    expect(await clock.runUntil(delay(clock, 40).then(() => 'done'))).toBe('done');
    expect(clock.now()).toBe(40);
    await expect(clock.runUntil(Promise.reject(new Error('as it was')))).rejects.toThrow('as it was');
  });

  it('says so when nothing is left that could settle a promise', async () => {
    const clock = new FakeClock();
    await expect(clock.runUntil(new Promise(() => undefined))).rejects.toThrow('would wait for ever');
    await expect(clock.runUntil(delay(clock, 5_000), 1_000)).rejects.toThrow('not settled by');
  });

  it('fires late what was due while the event loop was blocked', async () => {
    const clock = new FakeClock({ now: 0 });
    const fired: number[] = [];
    clock.setTimer(() => fired.push(clock.now()), 10);
    clock.block(100);
    expect(fired).toEqual([]);
    await clock.advance(0);
    expect(fired).toEqual([100]);
  });

  it('keeps a sleep of the machine off the monotonic clock, and a wall clock step off both others', () => {
    const clock = new FakeClock({ now: 1, wallNow: 10, uptimeMs: 100 });
    clock.sleepMachine(5);
    clock.stepWall(-8);
    expect([clock.now(), clock.wallNow(), clock.uptimeMs()]).toEqual([1, 7, 105]);
  });

  it('runs the next turn after promises, without time passing', async () => {
    const clock = new FakeClock({ now: 0 });
    const order: string[] = [];
    clock.nextTurn(() => order.push('turn'));
    void Promise.resolve().then(() => order.push('promise'));
    await clock.settle();
    expect(order).toEqual(['promise', 'turn']);
    expect(clock.now()).toBe(0);
  });
});
