/**
 * An Observable under a lock: each subscription acquires the lock, subscribes to the source inside the hold, and releases the
 * lock on completion, error or unsubscription, whichever comes first. An unsubscription does not stop the handler of a route that
 * answers once, by a promise: its lock is released when it has answered.
 */
import { finalize, Observable, Subject, takeUntil, type Subscriber } from 'rxjs';
import { Hold } from '../core/hold/hold.js';
import type { Lease } from '../core/port/lease.js';
import type { WithLockOptions } from '../core/port/lock-options.js';
import { abortWith, endedBy } from '../core/queue/abort-signals.js';
import type { Locker } from './lock.interceptor.js';

interface ObservableUnderLock {
  readonly locks: Locker;
  /** Gives the options of one subscription. @throws LockUsageError when the signal function gives no AbortSignal */
  readonly options: () => WithLockOptions;
  /** Ends the wait for the lock when it aborts, as the signal of the options does. */
  readonly gone: AbortSignal | undefined;
  readonly keyOf: () => string | readonly string[];
  /** Makes the Observable to subscribe to; called inside the hold. */
  readonly source: () => Observable<unknown>;
  /** Whether work behind the source goes on after an unsubscription, until the first value, the completion or an error tells that it is done. */
  readonly outlivesReader?: boolean;
  /** Gives the Observable to subscribe to, without the lock, when acquiring failed with `error`; or throws the error of the subscriber. */
  readonly instead: (error: unknown) => Observable<unknown>;
}

export function lockedObservable(work: ObservableUnderLock): Observable<unknown> {
  return new Observable<unknown>((subscriber) => {
    const stopped = new AbortController();
    // This is registered first, because the subscriber may unsubscribe before `run` returns, and that must end the wait too.
    subscriber.add(() => stopped.abort());
    void run(work, subscriber, stopped);
  });
}

/** Never rejects: every error goes to the subscriber. */
async function run(work: ObservableUnderLock, subscriber: Subscriber<unknown>, stopped: AbortController): Promise<void> {
  // Only what ends the wait itself can say that the lock is busy: not a key function, and not the reason of a signal.
  let isAsking = false;
  try {
    const options = work.options();
    const key = work.keyOf();
    for (const signal of [options.signal, work.gone]) if (signal) subscriber.add(abortWith(signal, stopped));
    isAsking = true;
    await work.locks.withLock(key, { ...options, signal: stopped.signal }, (lease) => {
      isAsking = false;
      return relayed(work, lossSignal(options, lease), subscriber);
    });
    // The subscriber completes after the release, so that it finds the lock free then (or its release sent, with `awaitRelease: false`).
    subscriber.complete();
  } catch (error) {
    if (!isAsking || endedBy(stopped.signal, error)) subscriber.error(error);
    else if (!subscriber.closed) subscribeInstead(work, error, subscriber);
  }
}

/**
 * Passes the values of the source on to the subscriber. Resolves when the source has completed, or when the subscriber has unsubscribed
 * and no work goes on; rejects with the error of the source, or with the reason of `loss` when that aborts.
 */
function relayed({ source, outlivesReader = false }: ObservableUnderLock, loss: AbortSignal | undefined, subscriber: Subscriber<unknown>): Promise<void> {
  if (subscriber.closed) return Promise.resolve();
  return new Promise<void>((resolve, reject) => {
    // `over` ends the subscription by takeUntil, because a source may emit, and its reader unsubscribe, before subscribe()
    // returns a subscription that could be ended.
    const over = new Subject<void>();
    const lost = (): void => over.error(loss?.reason);
    let isWorking = outlivesReader;
    const endUnlessWorking = (): void => {
      if (subscriber.closed && !isWorking) over.next();
    };
    const next = (value: unknown): void => {
      isWorking = false;
      subscriber.next(value);
      endUnlessWorking();
    };
    // This may throw, and must leave no listener behind then.
    const values = source();
    loss?.addEventListener('abort', lost, { once: true });
    subscriber.add(endUnlessWorking);
    values
      .pipe(takeUntil(over), finalize(() => loss?.removeEventListener('abort', lost)))
      .subscribe({ next, error: reject, complete: resolve });
  });
}

/**
 * The signal that ends the subscription when the lease is lost; undefined when `onLost` says that work goes on: that of the call, or the
 * default of the module that keeps the lock. A Hold has both merged. A test double of LockService gives another lease, or none.
 */
function lossSignal(options: WithLockOptions, lease: Lease | undefined): AbortSignal | undefined {
  const { onLost } = lease instanceof Hold ? lease.options : options;
  return onLost === 'ignore' ? undefined : lease?.signal;
}

function subscribeInstead(work: ObservableUnderLock, error: unknown, subscriber: Subscriber<unknown>): void {
  try {
    work.instead(error).subscribe(subscriber);
  } catch (refused) {
    subscriber.error(refused);
  }
}
