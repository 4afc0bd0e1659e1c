/**
 * Every error of the library. Each class stands for one decision of the caller; `code` is its stable name across
 * copies of the package, `key` the lock it is about, and the message says what happened and what to do next.
 */

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

/** The lock stayed busy for the whole of `waitMs`. Nothing is held; try later or report busy. */
export class LockTimeoutError extends LockError {
  override readonly name = 'LockTimeoutError';
  readonly code = 'LOCK_TIMEOUT';
  declare readonly key: string;
  /** How long the caller was ready to wait, in ms. */
  readonly waitMs: number;

  constructor(message: string, details: LockErrorDetails & { key: string; waitMs: number }) {
    super(message, details);
    this.waitMs = details.waitMs;
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
