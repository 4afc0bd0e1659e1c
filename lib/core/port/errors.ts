/**
 * Every error of the library. Each class stands for one decision of the caller; `code` is its stable name across
 * copies of the package, `key` the lock it is about, and the message says what happened and what to do next.
 */
import type { Whereabouts } from './holder-id.js';

export type LockErrorCode =
  | 'LOCK_TIMEOUT'
  | 'LOCK_LOST'
  | 'LOCK_KEY'
  | 'LOCK_USAGE'
  | 'LOCK_STORE'
  | 'LOCK_CLOSED';

export interface LockErrorDetails {
  /** The lock this is about; absent when no key could be made. */
  readonly key?: string | undefined;
  readonly cause?: unknown;
}

/** The base of all errors of this library. */
export abstract class LockError extends Error {
  abstract readonly code: LockErrorCode;
  readonly key: string | undefined;

  constructor(message: string, details: LockErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.key = details.key;
  }
}

/** Who had the lock when a wait for it ended. Process, host and label are there as far as holders say who they are (`describeHolders`). */
export interface BusyHolder extends Whereabouts {
  readonly label?: string | undefined;
  readonly owner?: string | undefined;
  readonly fence: number;
  /** About since when, by the wall clock of the store, or of this process for a holder in it; undefined when that is not known. */
  readonly since?: Date | undefined;
  /** It is in the process of the call that waited. */
  readonly isHere: boolean;
}

/** What was found out about a wait that was in vain. */
export interface WaitFacts {
  readonly holders?: readonly BusyHolder[] | undefined;
  readonly held?: readonly string[] | undefined;
  readonly cycle?: readonly string[] | undefined;
}

/** The lock stayed busy for the whole of `waitMs`. It was not taken; try later or report busy. */
export class LockTimeoutError extends LockError {
  override readonly name = 'LockTimeoutError';
  readonly code = 'LOCK_TIMEOUT';
  declare readonly key: string;
  /** How long the caller was ready to wait, in ms. */
  readonly waitMs: number;
  /** Who had the lock; empty for a call that did not wait, and when the store could not tell in time. */
  readonly holders: readonly BusyHolder[];
  /** The locks that the waiting call held, the outermost first. A lock that it took with `acquire` alone is not known to be its. */
  readonly held: readonly string[];
  /** The locks of a deadlock in this process, in the order in which its calls wait: each is held by the call that waits for the next. */
  readonly cycle: readonly string[] | undefined;

  constructor(message: string, details: LockErrorDetails & WaitFacts & { key: string; waitMs: number }) {
    super(message, details);
    this.waitMs = details.waitMs;
    this.holders = details.holders ?? [];
    this.held = details.held ?? [];
    this.cycle = details.cycle;
  }
}

/** The outcome of work that went on until after its lease was lost. */
export type WorkOutcome =
  | { readonly status: 'fulfilled'; readonly value: unknown }
  | { readonly status: 'rejected'; readonly reason: unknown };

/** The lease ended before it was released: somebody else may hold the lock. Stop, and let the fence refuse late writes. */
export class LockLostError extends LockError {
  override readonly name = 'LockLostError';
  readonly code = 'LOCK_LOST';
  declare readonly key: string;
  /** What the work came to, when it ended after its lease was lost. */
  readonly outcome: WorkOutcome | undefined;

  constructor(message: string, details: LockErrorDetails & { key: string; outcome?: WorkOutcome | undefined }) {
    super(message, details);
    this.outcome = details.outcome;
  }
}

/** No lock can be made of this key, or of the arguments it should be rendered from. Mend the caller. */
export class LockKeyError extends LockError {
  override readonly name = 'LockKeyError';
  readonly code = 'LOCK_KEY';
}

/** The library is used in a way that cannot work (an upgrade from read to write, contradictory options). Mend the code. */
export class LockUsageError extends LockError {
  override readonly name = 'LockUsageError';
  readonly code = 'LOCK_USAGE';
}

/** What a single node of a store said. */
export interface NodeFailure {
  readonly node: string;
  readonly reason: string;
}

/**
 * The store could not be reached or could not serve. As the answer to a request for a lock: nothing was begun, the lock was asked for
 * again for as long as `waitMs` allowed, and what may have been granted is taken back. From `lease.renew()`: the hold goes on until its
 * present end. From `forceRelease()`: it may have been done.
 */
export class LockStoreError extends LockError {
  override readonly name = 'LockStoreError';
  readonly code = 'LOCK_STORE';
  /** Which node failed, and why. */
  readonly nodes: readonly NodeFailure[];
  /** Whether asking again can help: false for what only an operator can mend (permissions, configuration). */
  readonly retryable: boolean;

  constructor(
    message: string,
    details: LockErrorDetails & { nodes?: readonly NodeFailure[]; retryable?: boolean } = {},
  ) {
    super(message, details);
    this.nodes = details.nodes ?? [];
    this.retryable = details.retryable ?? true;
  }
}

/** The module is shutting down, or has shut down. Nothing is held. */
export class LockClosedError extends LockError {
  override readonly name = 'LockClosedError';
  readonly code = 'LOCK_CLOSED';
}

/** Tells a LockError by its code, also one that another copy of this package made. */
export function isLockError(error: unknown): error is LockError {
  return typeof error === 'object' && error !== null && /^LOCK_[A-Z]+$/.test(String((error as { code?: unknown }).code));
}
