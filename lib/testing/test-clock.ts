/**
 * The clock of the locks in a test: it stands still until it is told to go on, and does not see fake timers of a test
 * runner, which may be installed or not.
 */
import { AsyncResource } from 'node:async_hooks';
import { setImmediate } from 'node:timers';
import { LockUsageError } from '../core/port/errors.js';
import { systemClock, type Clock, type Timer } from '../core/port/clock.js';

interface TestTimer {
  readonly due: number;
  readonly callback: () => void;
}

/** Kept from before anybody can put a fake in its place. */
const realTurn = setImmediate;
/** So many turns without time passing are a loop that never ends. */
const MOST_TURNS = 10_000;

/** Time passes in whole milliseconds here. @throws LockUsageError for what is no length of time, which would never pass */
export function checkMs(name: string, ms: unknown): void {
  if (Number.isSafeInteger(ms) && Number(ms) >= 0) return;
  throw new LockUsageError(`TestLocks: expected ${name} to be a whole number of milliseconds, got ${String(ms)}.`);
}

export class TestClock implements Clock {
  private readonly startedAt = systemClock.wallNow();
  private elapsed = 0;
  /** By due time; equal ones in the order they were set. */
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

  /** The callback keeps the async context of who set the timer, as Node's timers do. Rounded up, as the system's clock does. */
  setTimer(callback: () => void, delayMs: number): Timer {
    const timer: TestTimer = { due: this.elapsed + Math.max(0, Math.ceil(delayMs)), callback: AsyncResource.bind(callback) };
    const later = this.timers.findIndex(({ due }) => due > timer.due);
    this.timers.splice(later < 0 ? this.timers.length : later, 0, timer);
    return timer;
  }

  clearTimer(timer: Timer): void {
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

  /** A test runner keeps itself alive. */
  keepAlive(): () => void {
    return () => {};
  }

  /** Lets everything run that needs no time to pass. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < MOST_TURNS; turn++) {
      await new Promise<void>((resolve) => void realTurn(resolve));
      if (this.turns === 0) return;
    }
  }

  /** Lets `ms` pass, timer by timer. */
  async advance(ms: number): Promise<void> {
    checkMs('the time to advance', ms);
    const until = this.elapsed + ms;
    await this.settle();
    while (await this.fireNext(until));
    this.elapsed = Math.max(this.elapsed, until);
    await this.settle();
  }

  /** Goes on to the next timer and fires it. False when none is due by `until`. */
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
