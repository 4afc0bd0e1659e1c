/**
 * The clock of the locks in a test. It stands still until the test or the TestStore advances it, and works the same whether or not
 * fake timers of a test runner are installed.
 */
import { AsyncResource } from 'node:async_hooks';
import { setImmediate } from 'node:timers';
import { LockUsageError } from '../core/port/errors.js';
import { systemClock, type Clock, type Timer } from '../core/port/clock.js';
import { show } from '../core/port/options.js';

interface TestTimer {
  readonly due: number;
  readonly callback: () => void;
}

/** Node's setImmediate, kept before a test runner can replace it by a fake. */
const realTurn = setImmediate;
/** After this many turns of the event loop without time passing, {@link TestClock.settle} gives up: something runs in an endless loop. */
const MAX_TURNS = 10_000;

export class TestClock implements Clock {
  private readonly startedAt = systemClock.wallNow();
  private elapsed = 0;
  /** The timers sorted by due time; those of the same time in the order in which they were set. */
  private readonly timers: TestTimer[] = [];
  private turns = 0;

  now(): number {
    return this.elapsed;
  }

  wallNow(): number {
    return this.startedAt + this.elapsed;
  }

  uptimeMs(): number {
    return this.elapsed;
  }

  /** The callback runs in the async context in which the timer was set, as with Node's timers. The delay is rounded up to whole ms. */
  setTimer(callback: () => void, delayMs: number): Timer {
    // jest --detectOpenHandles would name what was not destroyed. It can be used afterwards.
    const context = new AsyncResource('TestTimer').emitDestroy();
    const timer: TestTimer = { due: this.elapsed + Math.max(0, Math.ceil(delayMs)), callback: () => context.runInAsyncScope(callback) };
    const later = this.timers.findIndex(({ due }) => due > timer.due);
    this.timers.splice(later < 0 ? this.timers.length : later, 0, timer);
    return timer;
  }

  clearTimer(timer: Timer | undefined): void {
    const at = this.timers.indexOf(timer as TestTimer);
    if (at >= 0) this.timers.splice(at, 1);
  }

  nextTurn(callback: () => void): void {
    this.turns += 1;
    realTurn(() => {
      this.turns -= 1;
      callback();
    });
  }

  /** Does nothing, because a test runner keeps its process alive itself. */
  keepAlive(): () => void {
    return () => {};
  }

  /** Lets everything run that does not need time to pass. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < MAX_TURNS; turn++) {
      await new Promise<void>((resolve) => void realTurn(resolve));
      if (this.turns === 0) return;
    }
  }

  /** Lets `ms` pass, and fires the timers that are due meanwhile one by one. */
  async advance(ms: number): Promise<void> {
    if (!Number.isSafeInteger(ms) || ms < 0) {
      throw new LockUsageError(`TestLocks.advance: expected the time to advance to be a whole number of milliseconds, got ${show(ms)}.`);
    }
    const until = this.elapsed + ms;
    await this.settle();
    while (await this.fireNext(until));
    this.elapsed = Math.max(this.elapsed, until);
    await this.settle();
  }

  /** Lets time pass until the next timer has fired, at most until `end`. False when that time has come. */
  async passOn(end: number): Promise<boolean> {
    if (end <= this.elapsed) return false;
    if (!(await this.fireNext(end))) await this.advance(end - this.elapsed);
    return true;
  }

  /** Advances to the next timer and fires it. False when no timer is due by `until`. */
  async fireNext(until = Infinity): Promise<boolean> {
    const [next] = this.timers;
    if (next === undefined || next.due > until) return false;
    this.timers.shift();
    this.elapsed = Math.max(this.elapsed, next.due);
    next.callback();
    await this.settle();
    return true;
  }
}
