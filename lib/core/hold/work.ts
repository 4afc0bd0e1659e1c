/** The work that a call runs inside its hold, and how it stands among the call's arguments. */
import { LockUsageError } from '../port/errors.js';
import type { Lease } from '../port/lease.js';
import type { CallSite, WithLockOptions } from '../port/lock-options.js';

export type Work<T> = (lease: Lease) => Promise<T> | T;

/** Tells the options of `withLock` and its work apart: the work is the last argument. `call` begins messages. @throws LockUsageError */
export function optionsAndWork<T, O = WithLockOptions & CallSite>(second: O | Work<T> | undefined, third: Work<T> | undefined, call = 'withLock(key'): readonly [O | undefined, Work<T>] {
  if (isWork(second)) {
    if (third === undefined) return [undefined, second];
    throw new LockUsageError(`${call}, options, fn): options stand before fn; behind it nobody would read them.`);
  }
  if (typeof third === 'function') return [second, third];
  throw new LockUsageError(`${call}, options?, fn): fn must be a function.`);
}

function isWork<O, T>(given: O | Work<T> | undefined): given is Work<T> {
  return typeof given === 'function';
}
