/**
 * A grant in our hands, as the caller of the library sees it.
 *
 *     held ──▶ released      by release(), the end of the method, or `await using`
 *       └────▶ lost          trust ended first: time, a renewal's answer, an operator, a sleeping machine
 */
import type { LockMode } from './lock-mode.js';

/** How a release ended. `lost`: the lease had ended before. `unknown`: the store did not answer; it is told in the background. */
export type ReleaseOutcome = 'released' | 'lost' | 'unknown';

/** One hold of one lock, or of several locks taken together. */
export interface Lease extends AsyncDisposable {
  /** The first key (of several, in the order in which they were taken). */
  readonly key: string;
  readonly keys: readonly string[];
  readonly mode: LockMode;
  /**
   * A number greater than that of every earlier grant of this key. Send it along with every write, and let the guarded
   * resource refuse smaller ones. @throws LockUsageError on a lease of several keys: see {@link fences}
   */
  readonly fence: number;
  /** The fence of each key. */
  readonly fences: ReadonlyMap<string, number>;
  /** How many calls are inside this hold: 1, plus the nested ones. */
  readonly holdCount: number;
  /** Since when it is held, in ms. */
  readonly heldMs: number;
  /** For how long it may be trusted unless it is renewed, in ms; 0 when it is over. */
  readonly remainingMs: number;
  /** Aborts with LockLostError when the lease can no longer be trusted. Not aborted by a release. */
  readonly signal: AbortSignal;
  /** Compares the clock now: exact even when the event loop was blocked and {@link signal} could not abort yet. @throws LockLostError */
  assertHeld(): void;
  /** Asks the store whether it still knows this lease. @throws LockStoreError when it cannot be asked */
  verify(): Promise<boolean>;
  /** Runs `fn` as a hold of this lease: calls inside it that want the same key re-enter. `acquire` alone does not change the caller's context. */
  run<T>(fn: () => T): T;
  /** Renews now, to `leaseMs` (default: the lease's own length). @throws LockLostError, LockStoreError */
  renew(leaseMs?: number): Promise<void>;
  /** Gives the lock back. Idempotent, bounded by `commandTimeoutMs`, and never throws for a lease that is gone. */
  release(): Promise<ReleaseOutcome>;
  /** What `JSON.stringify` and a logger write of it: which locks, with which fences, for how long. */
  toJSON(): LeaseFacts;
}

/** A lease in figures, as it was at one moment. Times are in ms. */
export interface LeaseFacts {
  readonly key: string;
  readonly keys: readonly string[];
  readonly mode: LockMode;
  readonly fences: Readonly<Record<string, number>>;
  readonly holdCount: number;
  readonly heldMs: number;
  readonly remainingMs: number;
}
