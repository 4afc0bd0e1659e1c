/**
 * How a request gets its turns: inside a hold that surrounds it, or from the local queue; several keys all or nothing.
 */
import { offAbort, onAbort } from '../queue/abort-signals.js';
import type { Clock } from '../port/clock.js';
import type { LockLostError } from '../port/errors.js';
import type { HoldContext } from './hold-context.js';
import type { LocalQueue } from '../queue/local-queue.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { ShutdownGate } from './shutdown-gate.js';
import type { Turn } from '../queue/turn.js';

/** Longest wait for the store when several keys begin together, or are given back: it ends in the background. */
const TOGETHER_WITHIN_MS = 500;
/** A caller is answered no later than a second after its time to wait is over; timers may take a part of that. */
const ANSWERED_WITHIN_MS = 950;

export class Entrance {
  constructor(
    private readonly clock: Clock,
    private readonly context: HoldContext,
    private readonly queue: LocalQueue,
    private readonly shutdown: ShutdownGate,
    private readonly onWaiting: (key: string, options: ResolvedOptions) => void,
  ) {}

  /** Keys are escaped, without duplicates and in order. Rejects with why there is no turn. */
  enter(keys: readonly string[], options: ResolvedOptions): Promise<readonly Turn[]> {
    const until = this.clock.now() + options.waitMs;
    return keys.length === 1 ? this.one(keys[0]!, options, until) : this.all(keys, options, until);
  }

  private one(key: string, options: ResolvedOptions, until: number): Promise<readonly Turn[]> {
    const insideHold = this.context.find() !== undefined;
    return insideHold && this.context.find(key) ? this.inside(key, options, until) : this.outside(key, options, until, insideHold);
  }

  private outside(key: string, options: ResolvedOptions, until: number, insideHold: boolean): Promise<readonly Turn[]> {
    const refusal = this.shutdown.refusal(key, insideHold);
    if (refusal) return Promise.reject(refusal);
    return this.queue.acquire(key, options, until, insideHold, () => this.onWaiting(key, options));
  }

  /** Inside the hold that surrounds this call; when that ends before we get in, from outside. */
  private async inside(key: string, options: ResolvedOptions, until: number): Promise<readonly Turn[]> {
    for (let outer = this.context.find(key); outer; outer = this.context.find(key)) {
      const turn = await outer.enter(key, options, until, () => this.onWaiting(key, options));
      if (turn) return [turn];
    }
    return this.outside(key, options, until, this.context.find() !== undefined);
  }

  /** All or nothing, one after another: a caller queues only at the first busy key, and the watchdog keeps what it has. */
  private async all(keys: readonly string[], options: ResolvedOptions, until: number): Promise<Turn[]> {
    const turns: Turn[] = [];
    const stop = new AbortController();
    const { signal } = options;
    const ended = { aborted: () => stop.abort(signal?.reason) };
    const lost = { leaseLost: (error: LockLostError) => stop.abort(error) };
    const insideHold = this.context.find() !== undefined;
    if (signal) onAbort(signal, ended);
    // A shutdown waits until what it has is given back.
    this.shutdown.holdBegan();
    try {
      for (const key of keys) {
        const [turn] = await this.one(key, { ...options, signal: stop.signal }, until);
        turns.push(turn!);
        turn!.lease.onLoss(lost);
        turn!.keep();
      }
      stop.signal.throwIfAborted();
      await this.each(turns, until, (turn, done) => turn.begin(done));
      stop.signal.throwIfAborted();
      const refusal = this.shutdown.refusal(keys[0]!, insideHold);
      if (refusal) throw refusal;
      return turns;
    } catch (error) {
      await this.each(turns, until, (turn, done) => turn.end(done, true));
      throw this.shutdown.refusal(keys[0]!, insideHold) ?? error;
    } finally {
      this.shutdown.holdEnded();
      if (signal) offAbort(signal, ended);
      for (const { lease } of turns) lease.offLoss(lost);
    }
  }

  /** `until`: when the caller's time to wait is over. */
  private each(turns: readonly Turn[], until: number, act: (turn: Turn, done: () => void) => void): Promise<void> {
    if (turns.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const leftMs = Math.max(0, until + ANSWERED_WITHIN_MS - this.clock.now());
      const timer = this.clock.setTimer(resolve, Math.min(TOGETHER_WITHIN_MS, leftMs));
      let left = turns.length;
      const done = (): void => {
        left -= 1;
        if (left > 0) return;
        this.clock.clearTimer(timer);
        resolve();
      };
      for (const turn of turns) act(turn, done);
    });
  }
}
