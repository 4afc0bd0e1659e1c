/**
 * Every error of the library. Each class stands for one decision that the caller has to make. `code` names the class also when
 * two copies of the package are loaded, `key` is the lock, and the message says what happened and what to do next.
 */
import type { Whereabouts } from './lock-state.js';

/** The `code` of each error, by which programs tell errors apart. */
export type LockErrorCode =
  | 'LOCK_TIMEOUT'
  | 'LOCK_LOST'
  | 'LOCK_KEY'
  | 'LOCK_USAGE'
  | 'LOCK_STORE'
  | 'LOCK_CLOSED';

interface LockErrorDetails {
  /** The key of the lock that the error is about; undefined when no key could be made, or the error is about no single lock. */
  readonly key?: string | undefined;
  readonly cause?: unknown;
}

/** The base of all errors of this library. */
export abstract class LockError extends Error {
  abstract readonly code: LockErrorCode;
  readonly key: string | undefined;

  constructor(message: string, details: LockErrorDetails = {}) {
    super(oneLine(message), details.cause === undefined ? undefined : { cause: details.cause });
    this.key = details.key;
  }
}

/**
 * The text with its control characters and line breaks written as `\u000a`: a key, a label or what a server said may have some, and who
 * can choose a key must not be able to write lines into a log.
 */
export function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Keys or names as they stand in a message. */
export function quoted(names: readonly string[]): string {
  return names.map((name) => `'${name}'`).join(', ');
}

/**
 * A holder of the lock at the moment when a call gave up its wait. `host`, `pid` and `label` are undefined when its module has
 * `describeHolders: false`.
 */
export interface BusyHolder extends Whereabouts {
  readonly label?: string | undefined;
  readonly owner?: string | undefined;
  readonly fence: number;
  /** When the hold began: by the wall clock of this process for a holder in it, else by the store's; undefined when unknown. */
  readonly since?: Date | undefined;
  /** Whether the hold was handed off from that process, and its ticket has not been adopted. */
  readonly handedOff?: true | undefined;
  /** Whether the holder is in the same process as the call that waited. */
  readonly isHere: boolean;
}

/** What a LockTimeoutError tells about the wait: who held the lock, and what the waiting call held. */
export interface WaitFacts {
  readonly holders?: readonly BusyHolder[] | undefined;
  readonly held?: readonly string[] | undefined;
}

/** The lock stayed busy for the whole of `waitMs`. It was not taken; try later or report busy. */
export class LockTimeoutError extends LockError {
  override readonly name = 'LockTimeoutError';
  readonly code = 'LOCK_TIMEOUT';
  declare readonly key: string;
  /** How long the caller was ready to wait, in ms. */
  readonly waitMs: number;
  /**
   * Who held the lock; empty for a call with `waitMs: 0`, when a call of the same hold was in the way, after a silence of the store, and
   * when the store does not name them within 100 ms or is being asked for 32 other locks.
   */
  readonly holders: readonly BusyHolder[];
  /** The locks that the waiting call held, the outermost first. A lock taken by `acquire` counts only inside `lease.run(fn)`. */
  readonly held: readonly string[];

  constructor(message: string, details: LockErrorDetails & WaitFacts & { key: string; waitMs: number }) {
    super(message, details);
    this.waitMs = details.waitMs;
    this.holders = details.holders ?? [];
    this.held = details.held ?? [];
  }
}

/** How work ended whose lease was lost before: with a value, or with an error. */
export type WorkOutcome =
  | { readonly status: 'fulfilled'; readonly value: unknown }
  | { readonly status: 'rejected'; readonly reason: unknown };

/**
 * Why a lease was lost. `expired`: it could not be renewed in time, or its fixed length was over. `max-hold`: its `maxHoldMs` was over.
 * `released-by-force`: an operator took the lock away. `forgotten`: the store lost its memory, and the lease could not be brought back.
 * `gone`: the store did not know it any more, and nobody said why. `shutdown`: its work went on for longer than `shutdownGraceMs`.
 * `ended`: the hold had been released or handed off when it was asked. `ticket-late`, `ticket-used`: of an adoption that failed.
 */
export type LossReason = 'expired' | 'max-hold' | 'released-by-force' | 'forgotten' | 'gone' | 'shutdown' | 'ended' | 'ticket-late' | 'ticket-used';

/** The lease ended before it was released: somebody else may hold the lock. Stop, and let the fence refuse late writes. */
export class LockLostError extends LockError {
  override readonly name = 'LockLostError';
  readonly code = 'LOCK_LOST';
  declare readonly key: string;
  /** How the work of withLock or of a decorated method ended after its lease was lost; undefined on other errors, such as the reason of `signal`. */
  readonly outcome: WorkOutcome | undefined;
  readonly reason: LossReason;

  constructor(message: string, details: LockErrorDetails & { key: string; outcome?: WorkOutcome | undefined; reason?: LossReason }) {
    super(message, details);
    this.outcome = details.outcome;
    this.reason = details.reason ?? 'gone';
  }
}

/** The key is not valid, or cannot be rendered from these arguments. The code that makes the key must be corrected. */
export class LockKeyError extends LockError {
  override readonly name = 'LockKeyError';
  readonly code = 'LOCK_KEY';
}

/** The library was called in a way that cannot work, such as an upgrade from read to write. The calling code must be corrected. */
export class LockUsageError extends LockError {
  override readonly name = 'LockUsageError';
  readonly code = 'LOCK_USAGE';
}

/** How one Redis of the store failed. */
export interface NodeFailure {
  /** What was asked: a server by its `host:port`, or the Sentinels or the Cluster by their names. */
  readonly node: string;
  /** What it said, or what happened on the way to it. */
  readonly reason: string;
}

/**
 * The store could not be reached or could not serve. When a call for a lock rejects with it, the work did not begin, the store was
 * asked again for as long as `waitMs` allowed, and what it may have granted is released in the background. When `lease.renew()`
 * rejects with it, the hold goes on until its present end. When `forceRelease()` does, the lock may have been released or not, and
 * may be released for as long as `commandTimeoutMs` from the call.
 */
export class LockStoreError extends LockError {
  override readonly name = 'LockStoreError';
  readonly code = 'LOCK_STORE';
  /** Each Redis that failed, and why; empty when no single server can be named. */
  readonly nodes: readonly NodeFailure[];
  /**
   * Whether trying again can help. False when an operator must act first, for example on permissions or configuration; and when
   * `forceRelease()` without a fence failed, because it could take the lock from the next holder: look with `inspect()` first.
   */
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

/** The lock module is shutting down or has shut down. The lock was not taken. */
export class LockClosedError extends LockError {
  override readonly name = 'LockClosedError';
  readonly code = 'LOCK_CLOSED';
}

/**
 * What `look` sees of a value that the application made: of what it threw, or gave as a result or an option. It may be anything, also null
 * or a Proxy that lets nobody look at it. Of such a value it sees `otherwise`.
 */
export function seen<T>(look: () => T, otherwise: T): T {
  try {
    return look();
  } catch {
    return otherwise;
  }
}

/** True if `error` is a LockError, recognized by its code, so that it may come from another copy of this package. */
export function isLockError(error: unknown): error is LockError {
  return seen(() => typeof error === 'object' && /^LOCK_[A-Z]+$/.test(String((error as { code?: unknown }).code)), false);
}

/**
 * The message of an error, or what was thrown in place of one. It is read without instanceof, because in the realm of a test runner
 * errors are no instances of Error. What has no text is an object without a prototype, or a Proxy that lets nobody look at it.
 */
export function messageOf(error: unknown): string {
  return seen(() => {
    if (typeof error !== 'object' || error === null || !('message' in error)) return String(error);
    const { message, errors, code } = error as { readonly message: unknown; readonly errors?: unknown; readonly code?: unknown };
    // Node's error for a name with several addresses, of which all refuse the connection, has no message of its own.
    return String(message) || (Array.isArray(errors) && errors.length > 0 ? errors.map(messageOf).join('; ') : String(code ?? ''));
  }, 'an object without a text');
}
