/**
 * Around one call: makes the key from the arguments, takes the lock, calls the method, gives the lock back. Every
 * decorator goes this way; {@link LockInterceptor.of} makes a Nest interceptor for routes of it.
 */
import type { NestInterceptor, Type } from '@nestjs/common';
import { EMPTY, from, isObservable, type Observable } from 'rxjs';
import { isLockError, LockUsageError } from '../core/port/errors.js';
import type { CallSite, WithLockOptions } from '../core/port/lock-options.js';
import type { LockService } from '../lock.service.js';
import type { LockedCall } from './locked-call.js';
import { lockedObservable } from './locked-observable.js';
import { routeLock, type RouteKey, type RouteLockOptions } from './route-lock.js';

/** What the interceptor needs of a LockService. */
export type Locker = Pick<LockService, 'withLock'>;

export class LockInterceptor {
  /** `describe` says whether the store may know which method a holder is. */
  constructor(
    private readonly locks: Locker,
    private readonly describe = true,
  ) {}

  /**
   * A Nest interceptor that locks a route by its request, from before the handler until its answer is complete:
   *
   *     @UseInterceptors(LockInterceptor.of('cart:<user.id>'))
   *
   * Placeholders are paths into the request; a function gets the ExecutionContext. A request whose client goes away stops
   * waiting; a handler that runs is not disturbed. A decorator on a service method is the better place wherever the method
   * is also called from elsewhere.
   */
  static of(key: RouteKey, options: RouteLockOptions = {}): Type<NestInterceptor> {
    return routeLock(key, options);
  }

  /** Runs `work` under the lock that `call` and `args` name. */
  around(call: LockedCall, args: readonly unknown[], work: () => unknown): Promise<unknown> | Observable<unknown> {
    if (call.returns === 'observable') return this.observed(call, args, work);
    if (call.onBusy === 'throw') return this.promised(call, args, work);
    return this.promisedOr(call, args, work, call.onBusy);
  }

  private async promised(call: LockedCall, args: readonly unknown[], work: () => unknown): Promise<unknown> {
    return this.locks.withLock(call.keyOf(args), this.optionsOf(call, args), () => settled(call, work));
  }

  private async promisedOr(
    call: LockedCall,
    args: readonly unknown[],
    work: () => unknown,
    instead: 'skip' | CallableFunction,
  ): Promise<unknown> {
    // Only our own lock counts: a busy lock that the method itself asked for is the method's error.
    let entered = false;
    const enter = () => {
      entered = true;
      return settled(call, work);
    };
    try {
      return await this.locks.withLock(call.keyOf(args), this.optionsOf(call, args), enter);
    } catch (error) {
      if (entered || !isBusy(error)) throw error;
      return instead === 'skip' ? undefined : Reflect.apply(instead, undefined, args);
    }
  }

  /** Runs at each subscription what {@link around} runs at each call. A wait ends with the signal `gone` as well. */
  observed(call: LockedCall, args: readonly unknown[], work: () => unknown, gone?: AbortSignal): Observable<unknown> {
    const { place, onBusy } = call;
    return lockedObservable({
      locks: this.locks,
      options: () => this.optionsOf(call, args),
      gone,
      keyOf: () => call.keyOf(args),
      source: () => observableOf(place, work()),
      instead: (error) => {
        if (onBusy === 'throw' || !isBusy(error)) throw error;
        return onBusy === 'skip' ? EMPTY : observableOf(place, Reflect.apply(onBusy, undefined, args));
      },
    });
  }

  private optionsOf({ options, signalOf }: LockedCall, args: readonly unknown[]): WithLockOptions & CallSite {
    const described = this.describe ? options : { ...options, label: undefined };
    return signalOf === undefined ? described : { ...described, signal: signalOf(args) };
  }
}

function isBusy(error: unknown): boolean {
  return isLockError(error) && error.code === 'LOCK_TIMEOUT';
}

/** The result of a method that must have ended when its promise settles: only then is it safe to give the lock back. */
async function settled({ place }: LockedCall, work: () => unknown): Promise<unknown> {
  const result = work();
  if (!isThenable(result)) {
    if (isStream(result)) throw streamed(place);
    throw new LockUsageError(`${place} is locked and ran, but returned ${typeof result} instead of a Promise. Make it async.`);
  }
  const value = await result;
  if (isStream(value)) throw streamed(place);
  return value;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

/** Whether work goes on behind this value: Observables, Node and web streams, generators, StreamableFile. */
function isStream(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return isObservable(value) || Symbol.asyncIterator in value || ('pipe' in value && !isSink(value)) || 'getStream' in value;
}

/** What can only be written to: the response of a handler with @Res(), which `return res.json(…)` gives back. */
function isSink(value: object): boolean {
  return 'write' in value && !('readable' in value);
}

function streamed(place: string): LockUsageError {
  return new LockUsageError(
    `${place} is locked and gave a stream, which would go on after its lock was given back. Let it return an ` +
      `Observable and give the decorator the option returns: 'observable', or use LockService.withLock around what ` +
      `reads the stream.`,
  );
}

function observableOf(place: string, result: unknown): Observable<unknown> {
  if (isObservable(result)) return from(result);
  throw new LockUsageError(`${place} has the option returns: 'observable', but what it returned is no Observable.`);
}
