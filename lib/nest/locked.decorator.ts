/**
 * The decorators: each one line over {@link lockMethod}, which differ in the mode only.
 */
import type { CallKey } from '../core/key/call-key.js';
import { lockMethod } from './lock-method.js';
import type { LockedDecorator, LockedOptions, OnBusy, Returns, StopsWait } from './locked-method.js';

/**
 * Runs one call of the method at a time in the whole fleet, per key.
 *
 *     @Locked('order:<0.id>')
 *     async pay(order: Order) { … }
 *
 * The key is a template whose placeholders name arguments, a function of the arguments, or an array of either. Calls
 * wait up to `waitMs`, then reject with LockTimeoutError. Inside, `LockService.currentLease()` gives fence and signal.
 * The mode is `write` unless the option says otherwise.
 */
export function Locked<const K extends CallKey, R extends Returns = 'promise', B extends OnBusy = 'throw', S extends StopsWait = AbortSignal>(
  key: K,
  options?: LockedOptions<R, B, S>,
): LockedDecorator<K, R, B, S> {
  return lockMethod('Locked', key, options);
}

/** The exclusive side of a read-write lock: the same lock as {@link Locked} on the same key. */
export function WriteLock<const K extends CallKey, R extends Returns = 'promise', B extends OnBusy = 'throw', S extends StopsWait = AbortSignal>(
  key: K,
  options?: SidedOptions<R, B, S>,
): LockedDecorator<K, R, B, S> {
  return lockMethod('WriteLock', key, options, 'write');
}

/** The shared side of a read-write lock: many calls at a time, none beside a {@link WriteLock} or {@link Locked}. */
export function ReadLock<const K extends CallKey, R extends Returns = 'promise', B extends OnBusy = 'throw', S extends StopsWait = AbortSignal>(
  key: K,
  options?: SidedOptions<R, B, S>,
): LockedDecorator<K, R, B, S> {
  return lockMethod('ReadLock', key, options, 'read');
}

/** The name of the decorator says the mode. */
type SidedOptions<R extends Returns, B extends OnBusy, S extends StopsWait> = Omit<LockedOptions<R, B, S>, 'mode'>;
