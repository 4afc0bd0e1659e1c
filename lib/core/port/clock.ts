/**
 * The only file that reads clocks and starts timers. The core and the stores are given a {@link Clock} and use nothing else, so
 * that a test or a simulation can drive their time.
 */
import { AsyncResource } from 'node:async_hooks';
import { uptime } from 'node:os';

/** A pending timer. Only the clock that made it knows what is inside. */
export type Timer = object;

export interface Clock {
  /** Monotonic milliseconds with a fraction, from an arbitrary start. Never goes back, ignores wall clock changes. */
  now(): number;
  /** The wall clock in milliseconds. It is shown to people and used to notice jumps, and never compared with the end of a lease. */
  wallNow(): number;
  /** Milliseconds since the machine booted, counting the time that it slept, which {@link now} does not. */
  uptimeMs(): number;
  /** Runs `callback` once after `delayMs`; the timer never keeps the process alive. */
  setTimer(callback: () => void, delayMs: number): Timer;
  /** Clears a timer, if there is one that has not fired. */
  clearTimer(timer: Timer | undefined): void;
  /** Runs `callback` in the next turn of the event loop, after timers and input had their chance. */
  nextTurn(callback: () => void): void;
  /** Keeps the process alive, which the timers of this clock do not, until the returned function is called. */
  keepAlive(): () => void;
}

/** The longest delay of a Node timer: Node fires timers of a longer delay at once. Whoever waits longer sets the timer again. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

/** The async context of all timers: none, because a timer serves many calls and must not keep alive the context of the one that set it. */
const outside = new AsyncResource('nestjs-holdfast');
// It can be used afterwards. What was not destroyed is taken for something that keeps the process open, by jest --detectOpenHandles for one.
outside.emitDestroy();

export const systemClock: Clock = {
  now: () => performance.now(),
  wallNow: () => Date.now(),
  uptimeMs: () => uptime() * 1000,
  setTimer: (callback, delayMs) => {
    // The delay is rounded up, because Node rounds it down: the timer would fire before its time and have to be set again.
    const forMs = Math.min(Math.max(0, Math.ceil(delayMs)), LONGEST_DELAY_MS);
    return outside.runInAsyncScope(setTimeout, undefined, callback, forMs).unref();
  },
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout),
  nextTurn: (callback) => void outside.runInAsyncScope(setImmediate, undefined, callback),
  keepAlive: () => {
    const timer = outside.runInAsyncScope(setInterval, undefined, () => {}, LONGEST_DELAY_MS);
    return () => clearInterval(timer);
  },
};

/**
 * Waits for so long, or until the function is called that it passes to `canEnd`; with `Infinity` only until that. Resolves with whether the whole
 * time has passed.
 */
export function pause(clock: Clock, forMs: number, canEnd: (end: () => void) => void = () => {}): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = forMs === Infinity ? undefined : clock.setTimer(() => resolve(true), forMs);
    canEnd(() => {
      clock.clearTimer(timer);
      resolve(false);
    });
  });
}

/** Growing pauses between tries. Each is spread at random over its second half, so that requests that failed together return apart. */
export class Backoff {
  /** By default the pauses are short, because others may wait, and calls are to be served soon after an outage. */
  constructor(
    private pauseMs = 20,
    private readonly longestMs = 200,
  ) {}

  /** The pause before the next try, in ms. */
  nextMs(): number {
    const { pauseMs } = this;
    this.pauseMs = Math.min(this.longestMs, 2 * pauseMs);
    return pauseMs * (0.5 + Math.random() / 2);
  }
}

/** Settles as `work` does, or rejects with what `late` gives when that takes longer than `withinMs`. */
export function inTime<T>(clock: Clock, work: Promise<T>, withinMs: number, late: () => Error | Promise<Error>): Promise<T> {
  let timer: Timer;
  const tooLate = new Promise<never>((_, reject) => (timer = clock.setTimer(() => void (async () => reject(await late()))(), withinMs)));
  return Promise.race([work, tooLate]).finally(() => clock.clearTimer(timer));
}

/** Keeps the process alive while `work` runs: a process that only waits for timers of this clock, which are unref'd, would end. */
export async function keptAlive<T>(clock: Clock, work: () => Promise<T>): Promise<T> {
  const letProcessEnd = clock.keepAlive();
  try {
    return await work();
  } finally {
    letProcessEnd();
  }
}
