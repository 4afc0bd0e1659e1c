/**
 * An Observable under a lock: each subscription takes a lease of its own, subscribes to the source inside the hold, and
 * gives the lease back on completion, error or unsubscription, whichever comes first.
 */
import { Observable, takeUntil, type Subscriber } from 'rxjs';
import { Hold } from '../core/hold/hold.js';
import type { Lease } from '../core/port/lease.js';
import type { WithLockOptions } from '../core/port/lock-options.js';
import { abortWith } from '../core/queue/abort-signals.js';
import type { Locker } from './lock.interceptor.js';

interface ObservableUnderLock {
  readonly locks: Locker;
  /** Asked for at each subscription. @throws LockUsageError */
  readonly options: () => WithLockOptions;
  /** Ends the wait, as the signal of the options does. */
  readonly gone: AbortSignal | undefined;
  readonly keyOf: () => string | readonly string[];
  /** Called inside the hold. */
  readonly source: () => Observable<unknown>;
  /** What to subscribe to, outside any lock, when the lock could not be had; throws what the subscriber shall get. */
  readonly instead: (error: unknown) => Observable<unknown>;
}

export function lockedObservable(work: ObservableUnderLock): Observable<unknown> {
  return new Observable<unknown>((subscriber) => {
    const stopped = new AbortController();
    // Registered before anything can run: an unsubscription in the same turn must stop the wait as well.
    subscriber.add(() => stopped.abort());
    void run(work, subscriber, stopped);
  });
}

/** Never rejects: whatever goes wrong is the subscriber's to hear. */
async function run(work: ObservableUnderLock, subscriber: Subscriber<unknown>, stopped: AbortController): Promise<void> {
  let entered = false;
  try {
    const options = work.options();
    for (const signal of [options.signal, work.gone]) if (signal) subscriber.add(abortWith(signal, stopped));
    await work.locks.withLock(work.keyOf(), { ...options, signal: stopped.signal }, (lease) => {
      entered = true;
      return relayed(work.source, stopsOnLoss(options, lease), lease, subscriber);
    });
    // After the release, so that who sees the end finds the lock free.
    subscriber.complete();
  } catch (error) {
    if (entered) subscriber.error(error);
    else if (!subscriber.closed) subscribeInstead(work, error, subscriber);
  }
}

/** Passes the source on; resolves when it ended or nobody reads it any more, rejects with its error or the loss. */
function relayed(source: () => Observable<unknown>, untilLoss: boolean, lease: Lease, subscriber: Subscriber<unknown>): Promise<void> {
  if (subscriber.closed) return Promise.resolve();
  return new Promise<void>((resolve, reject) => {
    // An Observable, and not a subscription kept for later: a source may emit, and its reader leave, while it is being
    // subscribed to.
    const over = new Observable<void>((notice) => {
      subscriber.add(() => notice.next());
      if (!untilLoss) return undefined;
      const lost = (): void => notice.error(lease.signal.reason);
      lease.signal.addEventListener('abort', lost, { once: true });
      return () => lease.signal.removeEventListener('abort', lost);
    });
    source()
      .pipe(takeUntil(over))
      .subscribe({ next: (value) => subscriber.next(value), error: reject, complete: resolve });
  });
}

/**
 * Whether to end with the loss as soon as it is known. The hold knows what the call and the module that keeps the lock say;
 * a double of LockService, in a test, may give leases that are none of ours.
 */
function stopsOnLoss(options: WithLockOptions, lease: Lease): boolean {
  const { onLost } = lease instanceof Hold ? lease.options : options;
  return onLost !== 'ignore';
}

function subscribeInstead(work: ObservableUnderLock, error: unknown, subscriber: Subscriber<unknown>): void {
  try {
    work.instead(error).subscribe(subscriber);
  } catch (refused) {
    subscriber.error(refused);
  }
}
