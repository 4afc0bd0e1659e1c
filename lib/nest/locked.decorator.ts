/**
 * The lock decorators. They differ only in the mode, and {@link lockMethod} does the work.
 */
import type { CallKey } from '../core/key/call-key.js';
import { lockMethod } from './lock-method.js';
import type { LockedDecorator, LockedOptions, OnBusy, Returns, StopsWait } from './locked-method.js';

/**
 * For each key, lets only one call of the method run at a time, in all processes that share the store.
 *
 *     @Locked('order:<0.id>')
 *     async pay(order: Order) { … }
 *
 * The key is a template whose placeholders name arguments, a function of the arguments, or an array of either. A call waits
 * up to `waitMs` (10,000 by default), then rejects with LockTimeoutError. Inside the method, `LockService.currentLease()` gives
 * the fence and the signal. The mode is `write` unless the option `mode` says otherwise.
 *
 * When the class is defined it throws LockKeyError for a malformed template, and LockUsageError for invalid options. A call
 * rejects with LockKeyError, LockTimeoutError, LockStoreError, LockUsageError, LockClosedError, or LockLostError after the work.
 */
export function Locked<const K extends CallKey, R extends Returns = 'promise', B extends OnBusy = 'throw', S extends StopsWait = AbortSignal>(
  key: K,
  options?: LockedOptions<R, B, S>,
): LockedDecorator<K, R, B, S> {
  return lockMethod('Locked', key, options);
}

/** The exclusive side of a read-write lock. It is the same lock as {@link Locked} on the same key. */
export function WriteLock<const K extends CallKey, R extends Returns = 'promise', B extends OnBusy = 'throw', S extends StopsWait = AbortSignal>(
  key: K,
  options?: SidedOptions<R, B, S>,
): LockedDecorator<K, R, B, S> {
  return lockMethod('WriteLock', key, options, 'write');
}

/** The shared side of a read-write lock: many calls hold it at a time, and none while a {@link WriteLock} or {@link Locked} holds it. */
export function ReadLock<const K extends CallKey, R extends Returns = 'promise', B extends OnBusy = 'throw', S extends StopsWait = AbortSignal>(
  key: K,
  options?: Omit<SidedOptions<R, B, S>, 'permits'>,
): LockedDecorator<K, R, B, S> {
  return lockMethod('ReadLock', key, options, 'read');
}

/** The options of a decorator whose name says the mode. */
type SidedOptions<R extends Returns, B extends OnBusy, S extends StopsWait> = Omit<LockedOptions<R, B, S>, 'mode'>;
