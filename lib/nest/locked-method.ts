/**
 * The types of the lock decorators. The compiler checks with them that a method returns a Promise or an Observable, and that
 * the key and the options suit its arguments and result. An error message is a string type in the decorator's return type,
 * because the compiler prints that type.
 */
import type { Observable } from 'rxjs';
import type { KeyProblem } from './key-template-paths.js';
import type { AbortSignalLike, WithLockOptions } from '../core/port/lock-options.js';

/** What a locked method returns. */
export type Returns = 'promise' | 'observable';

/** What a call does when its lock is busy: it rejects, it resolves to undefined, or it returns what a function of the arguments returns. */
export type OnBusy = 'throw' | 'skip' | ((...args: never[]) => unknown);

/** The signal that stops the wait: one for all calls, or a function that gives the signal of a call from its arguments. */
export type StopsWait = AbortSignalLike | ((...args: never[]) => AbortSignalLike | undefined);

/** Options of @Locked, @WriteLock and @ReadLock. */
export interface LockedOptions<R extends Returns = Returns, B extends OnBusy = OnBusy, S extends StopsWait = StopsWait>
  extends Omit<WithLockOptions, 'signal'> {
  /**
   * What a call does when the lock is busy. `throw`: it rejects with LockTimeoutError. `skip`: it resolves to undefined, and
   * an Observable completes without a value. A function: it is called with the method's arguments, without the lock, and its
   * result is the result of the call; `this` is the method's object. With `skip` and a function the default of `waitMs` is 0.
   * @default 'throw'
   */
  onBusy?: B | undefined;
  /**
   * `observable`: the method returns an Observable. The body of the method runs at each subscription, under a lock of its own
   * that is released on completion, error or unsubscription.
   * @default 'promise'
   */
  returns?: R | undefined;
  /**
   * The `name` of the LockModule that keeps this lock.
   * @default 'default', the module without a name
   */
  instance?: string | undefined;
  /**
   * Stops the wait for the lock when it aborts; the call rejects with `signal.reason`. A function gets the method's arguments
   * and returns the signal of this call, or undefined: `signal: (order: Order, stop: AbortSignal) => stop`. `this` is the method's object.
   * @default none
   */
  signal?: S | undefined;
}

export type AnyMethod = (...args: never[]) => unknown;

/**
 * A decorator of methods that suit its key `K` and its options `returns` (`R`), `onBusy` (`B`) and `signal` (`S`). On another
 * method it does not compile, and the error message says why. It is a MethodDecorator as well, as applyDecorators of Nest asks
 * for; in applyDecorators the compiler does not see the method and checks nothing.
 */
export type LockedDecorator<K, R extends Returns, B extends OnBusy, S extends StopsWait = StopsWait> = CheckedDecorator<K, R, B, S> &
  MethodDecorator &
  OnField;

/** What the compiler says of a decorator on a field: it calls that with two arguments, and prints what it returns. */
export type OnField = (
  target: object,
  property: string | symbol,
) => { 'nestjs-holdfast': `a field, such as one with an arrow function, is no method: write it as a method, 'async pay(id: string) { … }'` };

type CheckedDecorator<K, R extends Returns, B extends OnBusy, S extends StopsWait> = <T extends object, M extends AnyMethod>(
  target: T,
  property: string | symbol,
  descriptor: TypedPropertyDescriptor<M>,
) => Verdict<Problem<K, R, B, S, M> | ThisProblem<K | B | S, T>>;

/**
 * `void` when `P` is never, which lets the decorator compile; else a type that contains the message `P`. When `P` depends on a
 * type parameter of the class, the compiler cannot decide: then the result is `void`, and the call is checked at run time.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- what makes the compiler take the other branch
export type Verdict<P> = Outcome<P, [P] extends [never] ? void : any>;
type Outcome<P, Answer> = Answer extends void ? (0 extends 1 & Answer ? { 'nestjs-holdfast': P } : void) : never;

type Problem<K, R extends Returns, B extends OnBusy, S extends StopsWait, M extends AnyMethod> = [ResultProblem<R, ReturnType<M>>] extends [
  never,
]
  ? KeyProblem<K, Parameters<M>> | BusyProblem<R, B, Parameters<M>, ReturnType<M>> | SignalProblem<S, Parameters<M>>
  : ResultProblem<R, ReturnType<M>>;

/** A function that says what its `this` is must stand on a method of such an object. */
type ThisProblem<Given, T> = Given extends readonly (infer Part)[]
  ? ThisProblem<Part, T>
  : Given extends AnyMethod
    ? T extends ThisParameterType<Given>
      ? never
      : `the 'this' of a function of this decorator is no object of this class`
    : never;

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
        : `the onBusy function must accept the arguments of the method and return its result type (a literal in its result may need 'as const')`
      : never;

type SignalProblem<S extends StopsWait, Args extends readonly unknown[]> = StopsWait extends S
  ? never
  : S extends AnyMethod
    ? S extends (...args: Args) => AbortSignalLike | undefined
      ? never
      : `the signal function must accept the arguments of the method and return an AbortSignal or undefined`
    : never;

/** With `skip` an Observable completes without a value, and a Promise resolves to undefined, so its type must include undefined. */
type SkipProblem<R extends Returns, Result> = R extends 'observable'
  ? never
  : undefined extends Awaited<Result>
    ? never
    : `onBusy: 'skip' needs a method whose result may be undefined`;

type Instead<R extends Returns, Result> = R extends 'observable'
  ? Result
  : Awaited<Result> | PromiseLike<Awaited<Result>>;
