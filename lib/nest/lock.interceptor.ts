/**
 * LockInterceptor: makes the key of a call from its arguments, acquires the lock, runs the method, and releases the lock.
 * Every lock decorator calls it; {@link LockInterceptor.of} makes a Nest interceptor that calls it for a route.
 */
import { types } from 'node:util';
import type { NestInterceptor, Type } from '@nestjs/common';
import { from, isObservable, Observable, finalize, Subject, takeUntil, type Subscriber } from 'rxjs';
import { isLockError, LockUsageError, seen } from '../core/port/errors.js';
import type { AbortSignalLike, LockProfiles, WithLockOptions } from '../core/port/lock-options.js';
import { endedBy, abortWith } from '../core/queue/abort-signals.js';
import type { LockService } from '../lock.service.js';
import { endStream, isStream, refuseUnfinished } from './unfinished-results.js';
import { MODULE_DEFAULTS } from './lock-module-options.js';
import { callInModule, type CallInModule, type LockedCall } from './locked.decorator.js';
import { routeLock, type RouteKey, type RouteLockOptions } from './route-lock.js';
import { Hold } from '../core/hold/hold.js';
import type { Lease } from '../core/port/lease.js';

/** Gives the signal that ends the wait for the lock, from the signal of the options. */
type WaitEnds = (signal: AbortSignalLike | undefined) => AbortSignal;

/** A call whose result is an Observable. */
interface ObservedCall {
  readonly call: LockedCall;
  readonly args: readonly unknown[];
  /** Makes the Observable to subscribe to. It is called inside the hold. */
  readonly work: () => unknown;
  /** The object whose method is called: `this` in functions that a decorator was given. */
  readonly self?: unknown;
  /** Ends the wait for the lock when it aborts, besides the signal of the options. */
  readonly gone?: AbortSignal | undefined;
  /** True if the work goes on after an unsubscription until its first answer, so that the lock is kept until then. @default false */
  readonly outlivesReader?: boolean;
}

/** Runs calls under locks. Applications use {@link LockInterceptor.of} only; the decorators use the rest. */
export class LockInterceptor {
  /** A mock has a function in its place, as in the place of any other property. @internal */
  readonly isInterceptor = true;
  /** The calls that this module has completed. */
  private readonly known = new WeakMap<LockedCall, CallInModule>();

  /** `describe`: whether class and method of a holder are given to the store (`describeHolders`). `profiles`: those of the module. */
  constructor(
    private readonly locks: Pick<LockService, 'withLock'>,
    private readonly describe: boolean = MODULE_DEFAULTS.describeHolders,
    private readonly profiles: LockProfiles = {},
  ) {}

  /**
   * Makes a Nest interceptor that holds a lock from before the route's handler runs until its result is complete:
   *
   *     @UseInterceptors(LockInterceptor.of('cart:<user.id>'))
   *
   * Placeholders of the key are paths into the request; a key function gets the ExecutionContext. When the client disconnects while its
   * request waits, the wait ends and the handler does not run. A handler that runs keeps the lock until its result is there (what `@Res()`
   * sends later is not waited for), also when a `timeout` of an interceptor outside of this one has answered before; so put this one last.
   * (A route whose return type says `Observable`, or that has `@Sse`, ends with its reader.) A handler that gives a file or another stream is refused.
   *
   * @throws LockKeyError for a malformed template; LockUsageError for unknown options. Values that an option cannot have fail the boot
   */
  static of(key: RouteKey, options: RouteLockOptions = {}): Type<NestInterceptor> {
    return routeLock(key, options);
  }

  /**
   * Runs `work` under the lock whose key `call` makes of `args` and the object `self`. Whatever fails, it rejects and does not throw. `waitEnds`
   * gives the signal that ends the wait in place of that of the options. @internal
   */
  around(call: LockedCall, args: readonly unknown[], work: (lease: Lease) => unknown, self: unknown, waitEnds?: WaitEnds): Promise<unknown> {
    // Once the work runs, a LockTimeoutError is from a lock that the work itself asked for, and is passed on.
    let entered = false;
    const enter = (lease: Lease): Promise<unknown> => {
      entered = true;
      return resultOf(call.site, work(lease));
    };
    try {
      const { options: complete, onBusy } = this.complete(call);
      let options = call.signalOf ? { ...complete, signal: call.signalOf(args, self) } : complete;
      const key = call.keyOf(args, self);
      if (waitEnds) options = { ...options, signal: waitEnds(options.signal) };
      const done = Promise.resolve(this.locks.withLock(key, options, enter));
      if (onBusy === 'throw') return done;
      return done.catch((error: unknown) => {
        if (entered || endedBy(options.signal, error) || !isLockError(error) || error.code !== 'LOCK_TIMEOUT') throw error;
        return onBusy === 'skip' ? undefined : Reflect.apply(onBusy, self, args);
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * An Observable under a lock: each subscription acquires the lock, subscribes to the source inside the hold, and releases the lock on
   * completion, error or unsubscription, whichever comes first. An unsubscription does not stop the handler of a route that answers once, by a
   * promise: its lock is released when it has answered. @internal
   */
  observed(observed: ObservedCall): Observable<unknown> {
    const { call, args, self, gone } = observed;
    return new Observable<unknown>((subscriber) => {
      const stopped = new AbortController();
      // This is registered first, because the subscriber may unsubscribe before `around` returns, and that must end the wait too.
      subscriber.add(() => stopped.abort());
      const waitEnds: WaitEnds = (signal) => {
        for (const each of [signal, gone]) if (each) subscriber.add(abortWith(each, stopped));
        return stopped.signal;
      };
      const relay = (lease: Lease | undefined): Promise<void> => relayed(observed, lossSignal(this.complete(call).options, lease), subscriber);
      // The subscriber completes after the release, so that it finds the lock free then (or its release sent, with `awaitRelease: false`).
      // What there is to subscribe to then is what `onBusy` gave in place of the work.
      const ended = (instead: unknown): void => {
        if (instead === undefined) subscriber.complete();
        else if (!subscriber.closed) observableOf(call.site, instead).subscribe(subscriber);
      };
      this.around(call, args, relay, self, waitEnds).then(ended).catch((error: unknown) => subscriber.error(error));
    });
  }

  private complete(call: LockedCall): CallInModule {
    let complete = this.known.get(call);
    if (complete === undefined) this.known.set(call, (complete = callInModule(call, this.describe, this.profiles)));
    return complete;
  }
}

/** What a locked method resolves to. A result that is no promise, and one whose work is not done, is refused. @throws LockUsageError */
function resultOf(site: string, result: unknown): Promise<unknown> {
  // A promise of Node's, as most results are, needs no careful look.
  if (!types.isPromise(result) && !isThenable(result)) {
    refuseUnfinished(result, site, 'method');
    throw new LockUsageError(`${site} is locked and ran, but returned ${typeof result} instead of a Promise. Make it async.`);
  }
  return Promise.resolve(result).then((value: unknown) => {
    if (typeof value === 'object' || typeof value === 'function') refuseUnfinished(value, site, 'method');
    return value;
  });
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return seen(() => typeof value === 'object' && value !== null && typeof Reflect.get(value, 'then') === 'function', false);
}

function observableOf(site: string, result: unknown): Observable<unknown> {
  if (isObservable(result)) return from(result);
  if (isStream(result)) endStream(result);
  throw new LockUsageError(`${site} has the option returns: 'observable', but what it returned is no Observable.`);
}

/**
 * Passes the values of the source on to the subscriber. Resolves when the source has completed, or when the subscriber has unsubscribed
 * and no work goes on; rejects with the error of the source, or with the reason of `loss` when that aborts.
 */
function relayed({ call, work, outlivesReader = false }: ObservedCall, loss: AbortSignal | undefined, subscriber: Subscriber<unknown>): Promise<void> {
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
    const values = observableOf(call.site, work());
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
