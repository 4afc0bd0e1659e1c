/**
 * LockInterceptor: makes the key of a call from its arguments, acquires the lock, runs the method, and releases the lock.
 * Every lock decorator calls it; {@link LockInterceptor.of} makes a Nest interceptor that calls it for a route.
 */
import type { NestInterceptor, Type } from '@nestjs/common';
import { EMPTY, from, isObservable, type Observable } from 'rxjs';
import { isLockError, LockUsageError } from '../core/port/errors.js';
import type { LockProfiles } from '../core/port/lock-options.js';
import { endedBy } from '../core/queue/abort-signals.js';
import type { LockService } from '../lock.service.js';
import { endStream, isStream, refuseUnfinished } from './unfinished-results.js';
import { MODULE_DEFAULTS } from './lock-module-options.js';
import { callInModule, type CallInModule, type LockedCall } from './locked-call.js';
import { lockedObservable } from './locked-observable.js';
import { routeLock, type RouteKey, type RouteLockOptions } from './route-lock.js';

/** The part of LockService that the interceptor uses. */
export type Locker = Pick<LockService, 'withLock'>;

/** How the Observable of {@link LockInterceptor.observed} ends. */
interface Observed {
  /** The object whose method is called: `this` in functions that a decorator was given. */
  readonly self?: unknown;
  /** Ends the wait for the lock when it aborts, besides the signal of the options. */
  readonly gone?: AbortSignal | undefined;
  /** Whether the work goes on after an unsubscription until its first answer, so that the lock is kept until then. @default false */
  readonly outlivesReader?: boolean;
}

/** Runs calls under locks. Applications use {@link LockInterceptor.of} only; the decorators use the rest. */
export class LockInterceptor {
  /** The calls that this module has completed. */
  private readonly known = new WeakMap<LockedCall, CallInModule>();

  /** `describe`: whether class and method of a holder are given to the store (`describeHolders`). `profiles`: those of the module. */
  constructor(
    private readonly locks: Locker,
    private readonly describe: boolean = MODULE_DEFAULTS.describeHolders,
    private readonly profiles: LockProfiles = {},
  ) {}

  /**
   * Makes a Nest interceptor that holds a lock from before the route's handler runs until its result is complete:
   *
   *     @UseInterceptors(LockInterceptor.of('cart:<user.id>'))
   *
   * Placeholders of the key are paths into the request; a key function gets the ExecutionContext. When the client disconnects while its
   * request waits, the wait ends and the handler does not run. A handler that runs keeps the lock until it has answered, also when a
   * `timeout` of an interceptor outside of this one has answered before; so put this one last. (A route whose return type says
   * `Observable`, or that has `@Sse`, ends with its reader.) A handler that gives a file or another stream is refused.
   *
   * @throws LockKeyError for a malformed template; LockUsageError for unknown or invalid options
   */
  static of(key: RouteKey, options: RouteLockOptions = {}): Type<NestInterceptor> {
    return routeLock(key, options);
  }

  /** Runs `work` under the lock whose key `call` makes of `args` and the object `self`. Whatever fails, it rejects and does not throw. @internal */
  around(call: LockedCall, args: readonly unknown[], work: () => unknown, self: unknown): Promise<unknown> | Observable<unknown> {
    if (call.returns === 'observable') return this.observed(call, args, work, { self });
    const { site } = call;
    // Once the method runs, a LockTimeoutError is from a lock that the method itself asked for, and is passed on.
    let entered = false;
    const enter = (): Promise<unknown> => {
      entered = true;
      return resultOf(site, work());
    };
    try {
      const { options: complete, onBusy } = this.known.get(call) ?? this.complete(call);
      const options = call.signalOf ? { ...complete, signal: call.signalOf(args, self) } : complete;
      const done = Promise.resolve(this.locks.withLock(call.keyOf(args, self), options, enter));
      if (onBusy === 'throw') return done;
      return done.catch((error: unknown) => {
        if (entered || endedBy(options.signal, error) || !isBusy(error)) throw error;
        return onBusy === 'skip' ? undefined : Reflect.apply(onBusy, self, args);
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** An Observable that acquires the lock and runs `work` at each subscription. @internal */
  observed(call: LockedCall, args: readonly unknown[], work: () => unknown, { gone, outlivesReader, self }: Observed): Observable<unknown> {
    const { site } = call;
    return lockedObservable({
      locks: this.locks,
      options: () => {
        const { options } = this.complete(call);
        return call.signalOf ? { ...options, signal: call.signalOf(args, self) } : options;
      },
      gone,
      keyOf: () => call.keyOf(args, self),
      source: () => observableOf(site, work()),
      outlivesReader,
      instead: (error) => {
        const { onBusy } = this.complete(call);
        if (onBusy === 'throw' || !isBusy(error)) throw error;
        return onBusy === 'skip' ? EMPTY : observableOf(site, Reflect.apply(onBusy, self, args));
      },
    });
  }

  private complete(call: LockedCall): CallInModule {
    let complete = this.known.get(call);
    if (complete === undefined) this.known.set(call, (complete = callInModule(call, this.describe, this.profiles)));
    return complete;
  }
}

function isBusy(error: unknown): boolean {
  return isLockError(error) && error.code === 'LOCK_TIMEOUT';
}

/** What a locked method resolves to. A result that is no promise, and one whose work is not done, is refused. @throws LockUsageError */
function resultOf(site: string, result: unknown): Promise<unknown> {
  if (!isThenable(result)) {
    refuseUnfinished(result, site, 'method');
    throw new LockUsageError(`${site} is locked and ran, but returned ${typeof result} instead of a Promise. Make it async.`);
  }
  return Promise.resolve(result).then((value: unknown) => {
    if (typeof value === 'object' || typeof value === 'function') refuseUnfinished(value, site, 'method');
    return value;
  });
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  try {
    return typeof value === 'object' && value !== null && typeof Reflect.get(value, 'then') === 'function';
  } catch {
    return false;
  }
}

function observableOf(site: string, result: unknown): Observable<unknown> {
  if (isObservable(result)) return from(result);
  if (isStream(result)) endStream(result);
  throw new LockUsageError(`${site} has the option returns: 'observable', but what it returned is no Observable.`);
}
