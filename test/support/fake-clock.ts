/**
 * A clock whose time only passes when the test says so. Timers fire in the order of their due times (those of one
 * instant in the order they were set), and after each one every promise that can go on goes on, so a run with the
 * same calls is the same run.
 *
 *     const clock = new FakeClock();
 *     const lease = await clock.runUntil(locks.acquire('order:1'));   // time passes only as far as needed
 *     await clock.advance(5_000);
 *
 * Promises are let run by waiting for one real turn of the event loop, so work under this clock must not do real input
 * or output: what waits for a socket counts as waiting for ever.
 */
import type { Clock, Timer } from '../../lib/core/port/clock.js';

interface FakeTimer {
  readonly due: number;
  readonly callback: () => void;
}

/** So many turns without time passing are a loop that never ends. */
const MAX_TURNS_AT_ONE_INSTANT = 100_000;

export class FakeClock implements Clock {
  private current: number;
  private wall: number;
  private uptime: number;
  /** By due time; equal ones in the order they were set. */
  private timers: FakeTimer[] = [];
  private turnsLeft = 0;
  private turnsRun = 0;
  private keepers = 0;

  /** Starts off zero on all three clocks, so that a test notices when one is mistaken for another. */
  constructor(start: { now?: number; wallNow?: number; uptimeMs?: number } = {}) {
    this.current = start.now ?? 1_000;
    this.wall = start.wallNow ?? Date.UTC(2026, 0, 1);
    this.uptime = start.uptimeMs ?? 3_600_000;
  }

  now(): number {
    return this.current;
  }

  wallNow(): number {
    return this.wall;
  }

  uptimeMs(): number {
    return this.uptime;
  }

  setTimer(callback: () => void, delayMs: number): Timer {
    const timer: FakeTimer = { due: this.current + Math.max(0, delayMs), callback };
    let at = this.timers.length;
    while (at > 0 && (this.timers[at - 1] as FakeTimer).due > timer.due) at--;
    this.timers.splice(at, 0, timer);
    return timer;
  }

  clearTimer(timer: Timer | undefined): void {
    const at = this.timers.indexOf(timer as FakeTimer);
    if (at >= 0) this.timers.splice(at, 1);
  }

  nextTurn(callback: () => void): void {
    this.turnsLeft += 1;
    setImmediate(() => {
      this.turnsLeft -= 1;
      this.turnsRun += 1;
      callback();
    });
  }

  /** A test runner keeps itself alive, so this only counts. */
  keepAlive(): () => void {
    this.keepers += 1;
    return () => void (this.keepers -= 1);
  }

  /** Whether a process with this clock would be kept alive. */
  get isKeptAlive(): boolean {
    return this.keepers > 0;
  }

  /** Timers that are set and not yet fired: 0 when the library is idle. */
  get pendingTimers(): number {
    return this.timers.length;
  }

  /** Lets everything run that needs no time to pass. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < MAX_TURNS_AT_ONE_INSTANT; turn++) {
      const before = this.turnsRun;
      // A real turn runs all microtasks to their end, however deep the chain of promises is.
      await new Promise<void>((resolve) => void setImmediate(resolve));
      if (this.turnsLeft === 0 && this.turnsRun === before) return;
    }
    throw new Error(`FakeClock: still busy after ${MAX_TURNS_AT_ONE_INSTANT} turns at ${this.current} ms`);
  }

  /** Lets `ms` pass, firing timers at their own instants. */
  async advance(ms: number): Promise<void> {
    const target = this.current + ms;
    await this.settle();
    while (await this.fireNext(target));
    this.pass(target);
    await this.settle();
  }

  /**
   * Lets time pass from timer to timer until `promise` settles, and settles like it. Rejects when nothing is left
   * that could settle it, or when it would take more than `withinMs`.
   */
  async runUntil<T>(promise: PromiseLike<T>, withinMs = 600_000): Promise<T> {
    let settled = false;
    const marked = Promise.resolve(promise).finally(() => (settled = true));
    // Whoever awaits the result below gets the rejection; this only keeps it from counting as unhandled until then.
    marked.catch(() => undefined);
    const limit = this.current + withinMs;
    await this.settle();
    while (!settled) {
      if (!(await this.fireNext(limit))) throw this.stuck(limit);
    }
    return marked;
  }

  /** The process is stopped or its event loop blocked: time passes, and what is due fires late, at the next turn. */
  block(ms: number): void {
    this.pass(this.current + ms);
  }

  /** The machine sleeps: wall clock and uptime go on, the monotonic clock and its timers do not. */
  sleepMachine(ms: number): void {
    this.wall += ms;
    this.uptime += ms;
  }

  /** Somebody sets the wall clock, forward or back. */
  stepWall(ms: number): void {
    this.wall += ms;
  }

  private async fireNext(limit: number): Promise<boolean> {
    const next = this.timers[0];
    if (next === undefined || next.due > limit) return false;
    this.timers.shift();
    this.pass(Math.max(this.current, next.due));
    next.callback();
    await this.settle();
    return true;
  }

  private pass(until: number): void {
    const ms = until - this.current;
    this.current = until;
    this.wall += ms;
    this.uptime += ms;
  }

  private stuck(limit: number): Error {
    const next = this.timers[0];
    return new Error(
      next === undefined
        ? `FakeClock: at ${this.current} ms no timer is set, so the promise would wait for ever`
        : `FakeClock: not settled by ${limit} ms; the next timer is due at ${next.due} ms`,
    );
  }
}
