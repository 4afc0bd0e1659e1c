/**
 * The lease that `acquire` and `withLock` give to their caller.
 *
 *     held ──▶ released      by release(), by the end of the method, or by the end of an `await using` block
 *       ├────▶ released      by handOff(): the lock goes to whoever adopts the ticket
 *       └────▶ lost          it can no longer be trusted: its time is over, the store no longer knows it, an operator took the
 *                            lock away, or the machine slept
 */
import type { HandOffOptions, LockMode } from './lock-options.js';

/** How a release ended. `lost`: the lease had ended before. `unknown`: the store did not answer; the release is repeated later. */
export type ReleaseOutcome = 'released' | 'lost' | 'unknown';

/** Receives the outcome of a release, once. */
export type ReleaseEnded = (outcome: ReleaseOutcome) => void;

/** The hold of one lock, or of several locks that were taken together. */
export interface Lease extends AsyncDisposable {
  /** The key of the lock; of several the first of {@link keys}. */
  readonly key: string;
  /** The keys of all locks of this lease, in the order in which they were taken: sorted, without duplicates. */
  readonly keys: readonly string[];
  /** How the lock is held. For several locks it is `write` only when all of them are held for writing. */
  readonly mode: LockMode;
  /**
   * A number greater than the fence of every earlier grant of this key. Send it along with every write, and let the guarded
   * resource refuse smaller ones. @throws LockUsageError on a lease of several keys: use {@link fences}
   */
  readonly fence: number;
  /** The fence of each lock, by its key. */
  readonly fences: ReadonlyMap<string, number>;
  /** How many calls are inside this hold: 1, plus the nested calls that re-entered it. */
  readonly holdCount: number;
  /** How long this hold has lasted so far, in ms. */
  readonly heldMs: number;
  /** How long the lease can be trusted from now on unless it is renewed, in ms; 0 when it was released or lost. */
  readonly remainingMs: number;
  /** Aborts with LockLostError when the lease can no longer be trusted. A release does not abort it. */
  readonly signal: AbortSignal;
  /** Compares the clock now, so it is exact even when a blocked event loop kept {@link signal} from aborting. @throws LockLostError */
  assertHeld(): void;
  /** Asks the store whether it still knows this lease. @throws LockStoreError when the store cannot be asked */
  verify(): Promise<boolean>;
  /**
   * Runs `fn` inside this hold: calls in it that want the same lock re-enter the hold. After `acquire`, calls re-enter only inside
   * `run`, because `acquire` does not change the context of its caller. @throws LockLostError
   */
  run<T>(fn: () => T): T;
  /**
   * Renews the lease, so that it ends `leaseMs` ms from now (default: its length). It never shortens it.
   *
   * @throws LockLostError; LockUsageError for a length below 100, or with `graceMs` above `maxLeaseMs`; LockStoreError
   */
  renew(leaseMs?: number): Promise<void>;
  /**
   * Resolves with a ticket, and hands the hold to whoever brings it to `locks.adopt`, in any process. Nobody else gets the lock in
   * between, and the ticket is good for one adoption. The hold ends here at once, as by a release: `signal` does not abort,
   * `assertHeld` throws, and `release` has nothing left to do. When nobody adopts within `withinMs`, the lock passes on by itself.
   * @throws LockUsageError on a nested hold, while calls are inside the hold, on a Redlock, and for an invalid `withinMs`: the hold goes
   * on then; LockLostError; LockStoreError when it is not known whether the store heard of it: then the ticket is void, and the lock is
   * released in the background
   */
  handOff(options?: HandOffOptions): Promise<string>;
  /** Gives the lock back. It may be called twice, takes at most `commandTimeoutMs`, and never rejects. */
  release(): Promise<ReleaseOutcome>;
  /** What `JSON.stringify` and loggers write of a lease: its keys, fences and times. */
  toJSON(): LeaseFacts;
}

/** The state of a lease at one moment. Times are in ms. */
export interface LeaseFacts {
  readonly key: string;
  readonly keys: readonly string[];
  readonly mode: LockMode;
  readonly fences: Readonly<Record<string, number>>;
  readonly holdCount: number;
  readonly heldMs: number;
  readonly remainingMs: number;
}
