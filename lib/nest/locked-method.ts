/**
 * What the compiler asks of a decorated method: the shape of its result, and that key and options suit it. The
 * complaint is a sentence in the decorator's return type, because that is what the compiler prints.
 */
import type { Observable } from 'rxjs';
import type { KeyProblem } from '../core/key/key-template-paths.js';
import type { WithLockOptions } from '../core/port/lock-options.js';

/** What a locked method gives back. */
export type Returns = 'promise' | 'observable';

/** What becomes of a call whose lock is busy: an error, nothing, or what a function of the arguments gives. */
export type OnBusy = 'throw' | 'skip' | ((...args: never[]) => unknown);

/** What ends the wait of a call: a signal for all calls, or what a function of the arguments gives. */
export type StopsWait = AbortSignal | ((...args: never[]) => AbortSignal | undefined);

/** Options of @Locked, @WriteLock and @ReadLock. */
export interface LockedOptions<R extends Returns = Returns, B extends OnBusy = OnBusy, S extends StopsWait = StopsWait>
  extends Omit<WithLockOptions, 'signal'> {
  /**
   * `throw` rejects with LockTimeoutError; `skip` resolves to undefined (an Observable completes empty); a function is
   * called with the method's arguments and gives the result instead, outside the lock. `skip` and a function imply
   * `waitMs: 0` unless it is given.
   * @default 'throw'
   */
  onBusy?: B | undefined;
  /**
   * `observable`: the method returns an Observable; its body runs at each subscription, under a lease of its own that
   * ends on completion, error or unsubscription.
   * @default 'promise'
   */
  returns?: R | undefined;
  /**
   * The `name` of the LockModule that keeps this lock.
   * @default the module without a name
   */
  instance?: string | undefined;
  /**
   * Stops the wait when it aborts; the call rejects with `signal.reason`. A function is called with the method's arguments
   * and gives the signal of this call, or undefined: `signal: (order: Order, stop: AbortSignal) => stop`.
   * @default none
   */
  signal?: S | undefined;
}

type AnyMethod = (...args: never[]) => unknown;

/**
 * The decorator of a method whose shape suits `K`, `R`, `B` and `S`; for others it does not compile, and the error says why.
 * It is a MethodDecorator too, for Nest's applyDecorators, behind which the method is out of the compiler's sight.
 */
export type LockedDecorator<K, R extends Returns, B extends OnBusy, S extends StopsWait = StopsWait> = CheckedDecorator<K, R, B, S> &
  MethodDecorator;

type CheckedDecorator<K, R extends Returns, B extends OnBusy, S extends StopsWait> = <M extends AnyMethod>(
  target: object,
  property: string | symbol,
  descriptor: TypedPropertyDescriptor<M>,
) => Verdict<Problem<K, R, B, S, M>>;

/**
 * Whether `P` is a problem. Where it depends on a type parameter of the class the compiler cannot tell before the class
 * is extended: then it takes the one branch that is not `any`, which lets the method through, to be checked at the call.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- what makes the compiler take the other branch
type Verdict<P> = Outcome<P, [P] extends [never] ? void : any>;
type Outcome<P, Answer> = Answer extends void ? (0 extends 1 & Answer ? { 'nestjs-holdfast': P } : void) : never;

type Problem<K, R extends Returns, B extends OnBusy, S extends StopsWait, M extends AnyMethod> = [ResultProblem<R, ReturnType<M>>] extends [
  never,
]
  ? KeyProblem<K, Parameters<M>> | BusyProblem<R, B, Parameters<M>, ReturnType<M>> | SignalProblem<S, Parameters<M>>
  : ResultProblem<R, ReturnType<M>>;

type ResultProblem<R extends Returns, Result> = 'promise' | 'observable' extends R
  ? ResultIn<
      PromiseLike<unknown> | Observable<unknown>,
      Result,
      `a locked method must return a Promise or an Observable`
    >
  : R extends 'observable'
    ? ResultIn<Observable<unknown>, Result, `with returns: 'observable' the method must return an Observable`>
    : ResultIn<
        PromiseLike<unknown>,
        Result,
        `a locked method must return a Promise; one that returns an Observable needs the option returns: 'observable'`
      >;

type ResultIn<Expected, Result, Complaint> = [Result] extends [Expected] ? never : Complaint;

type BusyProblem<R extends Returns, B extends OnBusy, Args extends readonly unknown[], Result> = OnBusy extends B
  ? never
  : B extends 'skip'
    ? SkipProblem<R, Result>
    : B extends AnyMethod
      ? B extends (...args: Args) => Instead<R, Result>
        ? never
        : `the onBusy function must accept the arguments of the method and return its result type`
      : never;

type SignalProblem<S extends StopsWait, Args extends readonly unknown[]> = StopsWait extends S
  ? never
  : S extends AnyMethod
    ? S extends (...args: Args) => AbortSignal | undefined
      ? never
      : `the signal function must accept the arguments of the method and return an AbortSignal or undefined`
    : never;

/** A skipped Observable just completes; a skipped Promise resolves to undefined, which the method must allow. */
type SkipProblem<R extends Returns, Result> = R extends 'observable'
  ? never
  : undefined extends Awaited<Result>
    ? never
    : `onBusy: 'skip' needs a method whose result may be undefined`;

type Instead<R extends Returns, Result> = R extends 'observable'
  ? Result
  : Awaited<Result> | PromiseLike<Awaited<Result>>;
