/**
 * The only door to time. Everything in core and in the stores takes a {@link Clock}, so that a test or a
 * simulation can drive it; nothing else may read a clock or start a timer.
 */
import { AsyncResource } from 'node:async_hooks';
import { uptime } from 'node:os';

/** A pending timer; opaque to everyone but the clock that made it. */
export type Timer = object;

export interface Clock {
  /** Monotonic milliseconds with a fraction, from an arbitrary start. Never goes back, ignores wall clock changes. */
  now(): number;
  /** Wall clock in milliseconds: to be shown to people and to notice jumps, never to be compared with a lease. */
  wallNow(): number;
  /** Milliseconds since the machine booted, counting the time that it slept, which {@link now} does not. */
  uptimeMs(): number;
  /** Runs `callback` once after `delayMs`; the timer never keeps the process alive. */
  setTimer(callback: () => void, delayMs: number): Timer;
  clearTimer(timer: Timer): void;
  /** Runs `callback` in the next turn of the event loop, after timers and input had their chance. */
  nextTurn(callback: () => void): void;
  /** Keeps the process alive, which timers do not, until what it answers is called. */
  keepAlive(): () => void;
}

/** Node rejects delays that do not fit in 31 bits and fires them at once: a longer wait is asked for again. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

/** The library's timers belong to no call: they must not keep alive what surrounded whoever happened to start them. */
const outside = new AsyncResource('nestjs-holdfast');

export const systemClock: Clock = {
  now: () => performance.now(),
  wallNow: () => Date.now(),
  uptimeMs: () => uptime() * 1000,
  setTimer: (callback, delayMs) => {
    // Rounded up: Node may fire a fraction of a millisecond early, and a waiter that looks too early looks twice.
    const forMs = Math.min(Math.max(0, Math.ceil(delayMs)), LONGEST_DELAY_MS);
    return outside.runInAsyncScope(setTimeout, undefined, callback, forMs).unref();
  },
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout),
  nextTurn: (callback) => void outside.runInAsyncScope(setImmediate, undefined, callback),
  keepAlive: () => {
    const timer = setInterval(() => {}, LONGEST_DELAY_MS);
    return () => clearInterval(timer);
  },
};

/** Resolves after `delayMs` on `clock`. */
export function delay(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => void clock.setTimer(resolve, delayMs));
}

/** For what a process was started to do: without it a process that has nothing but timers of ours to wait for ends in silence. */
export async function keptAlive<T>(clock: Clock, work: () => Promise<T>): Promise<T> {
  const letGo = clock.keepAlive();
  try {
    return await work();
  } finally {
    letGo();
  }
}
