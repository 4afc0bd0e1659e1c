/** The work that a call runs inside its hold, and how it stands among the call's arguments. */
import { LockUsageError } from '../port/errors.js';
import type { Lease } from '../port/lease.js';
import type { CallSite, WithLockOptions } from '../port/lock-options.js';

export type Work<T> = (lease: Lease) => Promise<T> | T;

/** Tells the options of `withLock` and its work apart: the work is the last argument. `call` begins messages. @throws LockUsageError */
export function optionsAndWork<T, O = WithLockOptions & CallSite>(second: O | Work<T> | undefined, third: Work<T> | undefined, call = 'withLock(key'): readonly [O | undefined, Work<T>] {
  if (typeof second === 'function') {
    if (third === undefined) return [undefined, second as Work<T>];
    throw new LockUsageError(`${call}, options, fn): options stand before fn; behind it nobody would read them.`);
  }
  if (typeof third === 'function') return [second, third];
  throw new LockUsageError(`${call}, options?, fn): fn must be a function.`);
}

/** Whether work gave an Observable, as an HttpService of Nest does: what it stands for begins when it is subscribed to, after the lock was given back. */
export function isObservable(given: unknown): boolean {
  try {
    return typeof given === 'object' && given !== null && 'subscribe' in given && 'pipe' in given;
  } catch {
    // A Proxy that lets nobody look at it is a result like any other.
    return false;
  }
}

export function observableError(key: string): LockUsageError {
  return new LockUsageError(
    `Lock '${key}': the function gave an Observable, which nobody has subscribed to under the lock. Await its value inside: ` +
      `await firstValueFrom(observable). A method that is to return an Observable needs @Locked(key, { returns: 'observable' }).`,
    { key },
  );
}
