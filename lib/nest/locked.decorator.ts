/**
 * The lock decorators. Each replaces a method by a Proxy whose calls go through a LockInterceptor, and leaves everything else of the method
 * as it was.
 *
 *   - Nest keeps guards, routes, patterns and schedules as metadata of the function object. Metadata that decorators below
 *     this one put on the method is copied to the Proxy, metadata that they add later is inherited, and decorators above
 *     this one write to the Proxy itself, which is where Nest reads it. So the order of decorators does not matter.
 *   - The interceptor is injected into the object that has the method, and is not looked up in a static variable: so two
 *     applications in one process, request scope and subclasses work, and a class whose lock module is missing fails at boot.
 *   - The key, the options and the names of a decorator are one LockedCall, made when the class is defined.
 */
import 'reflect-metadata';
import { Inject } from '@nestjs/common';
import { throwError } from 'rxjs';
import { compileCallKey, type CallKey, type KeyOfCall } from './call-key.js';
import { LockUsageError } from '../core/port/errors.js';
import type { AbortSignalLike, CallSite, LockMode, LockProfiles, WithLockOptions } from '../core/port/lock-options.js';
import {
  checkOptions, expecting, invalidOption, isSignal, LONGEST_LABEL_BYTES, lockOptionNames, type NamesOf, oneOf, type OptionList, show, withProfile,
} from '../core/port/options.js';
import type { LockService } from '../lock.service.js';
import type { LeaderOptions } from './leader.decorator.js';
import { DEFAULT_INSTANCE, interceptorToken } from './lock-names.js';
import type { LockInterceptor } from './lock.interceptor.js';
import type { LockedDecorator, LockedOptions, OnBusy, Returns, StopsWait } from './locked-method.js';
import type { RouteLockOptions } from './route-lock.js';

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
 * When the class is defined it throws LockKeyError for a malformed template, and LockUsageError for unknown options; for values that an
 * option cannot have, the boot fails. A call rejects with LockKeyError, LockTimeoutError, LockStoreError, LockUsageError, LockClosedError, or
 * LockLostError after the work.
 */
export function Locked<const K extends CallKey, R extends Returns = 'promise', B extends OnBusy = 'throw', S extends StopsWait = AbortSignal>(
  key: K,
  options?: LockedOptions<R, B, S>,
): LockedDecorator<K, R, B, S> {
  return lockMethod('Locked', key, options) as LockedDecorator<K, R, B, S>;
}

/** The exclusive side of a read-write lock. It is the same lock as {@link Locked} on the same key. */
export function WriteLock<const K extends CallKey, R extends Returns = 'promise', B extends OnBusy = 'throw', S extends StopsWait = AbortSignal>(
  key: K,
  options?: SidedOptions<R, B, S>,
): LockedDecorator<K, R, B, S> {
  return lockMethod('WriteLock', key, options, 'write') as LockedDecorator<K, R, B, S>;
}

/** The shared side of a read-write lock: many calls hold it at a time, and none while a {@link WriteLock} or {@link Locked} holds it. */
export function ReadLock<const K extends CallKey, R extends Returns = 'promise', B extends OnBusy = 'throw', S extends StopsWait = AbortSignal>(
  key: K,
  options?: Omit<SidedOptions<R, B, S>, 'permits'>,
): LockedDecorator<K, R, B, S> {
  return lockMethod('ReadLock', key, options, 'read') as LockedDecorator<K, R, B, S>;
}

/** The options of a decorator whose name says the mode. */
type SidedOptions<R extends Returns, B extends OnBusy, S extends StopsWait> = Omit<LockedOptions<R, B, S>, 'mode'>;

/**
 * Makes a lock decorator. `name` is its name in messages; `mode` is given when the decorator's name says the mode. LockedDecorator only tells
 * the compiler what the method must look like; at run time this is an ordinary method decorator.
 */
function lockMethod(name: string, key: CallKey, options: LockedOptions | undefined, mode?: LockMode): MethodDecorator {
  if (typeof options === 'string' || typeof options === 'symbol') {
    throw new LockUsageError(`${methodName(key as object, options)}: @${name} has no key. Write @${name}('order:<0>').`);
  }
  return (target: object, property: string | symbol, descriptor?: PropertyDescriptor): void => {
    const method = methodOf(name, 'withLock', target, property, descriptor);
    const site = methodName(target, property);
    checkDecorator(options, mode === undefined ? LOCKED_OPTIONS : SIDED_OPTIONS, site);
    const keys = { key, parameters: method.length, list: LOCKED_OPTIONS, keyOf: compileCallKey(key, site) };
    const call = lockedCall(keys, mode === undefined ? { ...options } : { ...options, mode }, site);
    lockedMethods.add(target, property, call);
    needInterceptor(target, call.instance);
    // The descriptor is changed in place, because Nest's applyDecorators ignores a descriptor that a decorator returns.
    if (descriptor) descriptor.value = locked(method, call);
  };
}

// The methods that decorators are put on: what a decorator may decorate, how messages name it, and what it writes down of it.

/**
 * What the decorators of one kind wrote down of methods. It stands beside the prototype and not on the function, so that other
 * decorators may replace the function.
 */
export class MethodRecords<Written> {
  private readonly kept: symbol;

  /** `name` is the same in the ES module and the CommonJS copy of this package, so that each reads what the other wrote. */
  constructor(name: string) {
    this.kept = Symbol.for(`nestjs-holdfast:${name}`);
  }

  add(prototype: object, property: string | symbol, written: Written): void {
    const known = this.of(prototype);
    const all = [...(known.get(property) ?? []), written];
    Reflect.defineMetadata(this.kept, new Map([...known, [property, all]]), prototype);
  }

  /** The records of one prototype, without those of its ancestors. Of a method the first is that of the decorator nearest to it. */
  of(prototype: object): ReadonlyMap<string | symbol, readonly Written[]> {
    const found: unknown = Reflect.getOwnMetadata(this.kept, prototype);
    return found instanceof Map ? found : new Map();
  }
}

/** How messages name a method, of the class or of an object of it: `OrderService.pay`. */
export function methodName(target: object, property: string | symbol): string {
  const { name } = typeof target === 'function' ? target : target.constructor;
  return `${name || 'an anonymous class'}.${String(property)}`;
}

/** The method that a decorator was put on. `instead` is what LockService has for what is no method. @throws LockUsageError */
export function methodOf(
  name: string,
  instead: keyof LockService,
  target: object,
  property: string | symbol,
  descriptor: PropertyDescriptor | undefined,
): CallableFunction {
  if (descriptor === undefined && (typeof property === 'string' || typeof property === 'symbol')) {
    throw new LockUsageError(`${methodName(target, property)} is a property, and @${name} decorates methods. Write an arrow function as a method.`);
  }
  if (descriptor === undefined) {
    throw new LockUsageError(`@${name} decorates methods, with "experimentalDecorators" switched on as Nest needs it.`);
  }
  if (typeof target === 'function') {
    throw new LockUsageError(`${methodName(target, property)} is static, where nothing can be injected. Use LockService.${instead}, or make it a method.`);
  }
  const method: unknown = descriptor.value;
  if (typeof method === 'function') return method;
  throw new LockUsageError(`${methodName(target, property)} is no method, and @${name} decorates methods only.`);
}

/** The locked methods. A method with several lock decorators has several calls. */
export const lockedMethods = new MethodRecords<LockedCall>('locked-methods');

/** The end of the message for a test module that has no lock module and mocks every missing provider (`useMocker`). */
export const MOCKED =
  'but what was injected as its LockInterceptor is none: probably a mock (useMocker). Import locks into the test module: ' +
  'new TestLocks().asModule() of nestjs-holdfast/testing.';

/** The property in which an object with locked methods has the interceptor of the lock module named `instance`. */
export function interceptorSlot(instance: string): symbol {
  return Symbol.for(`nestjs-holdfast:interceptor:${instance}`);
}

/** The interceptors, by slot, of objects that take no further property. */
const frozen = new WeakMap<object, Map<symbol, LockInterceptor>>();

/** From now on Nest injects the interceptor of the lock module named `instance` into objects of this class, or refuses to boot. */
export function needInterceptor(prototype: object, instance: string): void {
  const slot = interceptorSlot(instance);
  if (slot in prototype) return;
  Object.defineProperty(prototype, slot, {
    configurable: true,
    get(this: object) {
      return frozen.get(this)?.get(slot);
    },
    // The property that Nest assigns is not enumerable, so that it does not show in logs, comparisons and copies of the object.
    set(this: object, interceptor: LockInterceptor) {
      if (Object.isExtensible(this)) Object.defineProperty(this, slot, { value: interceptor, configurable: true, writable: true });
      else frozen.set(this, new Map(frozen.get(this)).set(slot, interceptor));
    },
  });
  Inject(interceptorToken(instance))(prototype, slot);
}

function locked(method: CallableFunction, call: LockedCall): CallableFunction {
  const slot = interceptorSlot(call.instance);
  const copied = Reflect.getOwnMetadataKeys(method);
  const proxy = new Proxy(method, {
    apply: (_method, self: unknown, args: unknown[]) => {
      const interceptor = typeof self === 'object' && self !== null ? (Reflect.get(self, slot) as LockInterceptor | undefined) : undefined;
      if (interceptor?.isInterceptor !== true) return withoutInterceptor(call, self, interceptor);
      const work = (): unknown => Reflect.apply(method, self, args);
      return call.returns === 'observable' ? interceptor.observed({ call, args, work, self }) : interceptor.around(call, args, work, self);
    },
    // Metadata that the method got later is inherited. Otherwise, and when it is frozen, its true prototype is shown: an agent that
    // traces methods takes a function with another one for an object, and leaves it alone.
    getPrototypeOf: () =>
      Object.isExtensible(method) && Reflect.getOwnMetadataKeys(method).length > copied.length ? method : (Object.getPrototypeOf(method) as object | null),
    // Decorators above this one read names of parameters from the source, which a Proxy gives as `[native code]`.
    get: (_method, name, self) => (name === 'toString' && !Object.hasOwn(method, name) ? () => method.toString() : Reflect.get(method, name, self)),
  });
  for (const key of copied) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, method), proxy);
  }
  return proxy;
}

function withoutInterceptor({ site, returns }: LockedCall, self: unknown, found: unknown): unknown {
  const error = new LockUsageError(`${site} is locked${reasonFor(self, found)}`);
  return returns === 'observable' ? throwError(() => error) : Promise.reject(error);
}

function reasonFor(self: unknown, found: unknown): string {
  if (found !== undefined) return `, ${MOCKED}`;
  if (typeof self === 'object' && self !== null) {
    return (
      ', but its object was not made by Nest (but with new, by a factory that is not a singleton, or by one of a module that was loaded ' +
      'later), or its constructor called it: so it has no lock module. Make it a provider, inject it, and call it when it is made.'
    );
  }
  return ` and was called without its object (this is ${typeof self}). Call it as a method, or bind it.`;
}

// What a decorator was given, and what a lock module makes of it.

/** How the calls of a method or a route get their keys. */
interface KeysOfCall {
  /** The key as the decorator was given it. */
  readonly key: unknown;
  /** How many parameters the method has; of a route 1, the request. */
  readonly parameters: number;
  /** The options that the method or the route takes. */
  readonly list: OptionList;
  /** Makes the key of a call from its arguments and its object. */
  readonly keyOf: KeyOfCall;
}

/** One lock around a method. */
export interface LockedCall extends KeysOfCall {
  /** Class and method, for messages: `OrderService.pay`. */
  readonly site: string;
  /** The name of the lock module that keeps the lock. */
  readonly instance: string;
  /** Class and method alone, for the label of a holder: of a route without the interceptor that `site` names. */
  readonly method: string;
  /** The options as the decorator was given them. */
  readonly given: LockedOptions;
  /** Gives the signal of a call; undefined when the decorator was given no signal function. */
  readonly signalOf: ((args: readonly unknown[], self?: unknown) => AbortSignalLike | undefined) | undefined;
  readonly returns: Returns;
}

/** What a lock module makes of a LockedCall, once. */
export interface CallInModule {
  /** They are frozen: so the LockService completes and checks them once, and not at every call. */
  readonly options: WithLockOptions & CallSite;
  readonly onBusy: OnBusy;
}

/** Notes what a decorator was given, which has been checked. `method` is the class and method, by default the `site` that messages name. */
export function lockedCall(keys: KeysOfCall, given: LockedOptions, site: string, method = site): LockedCall {
  const { returns = 'promise', instance = DEFAULT_INSTANCE, signal } = given;
  const signalOf = typeof signal === 'function' ? signalFunction(signal, site) : undefined;
  return { ...keys, site, method, instance, given, signalOf, returns };
}

/**
 * Completes the options of a decorator with those of its profile. `describe`: whether the holder says who it is, unless the decorator says
 * so. @throws LockUsageError for a profile that the module does not have
 */
export function callInModule({ given, key, method, list }: LockedCall, describe: boolean, profiles: LockProfiles): CallInModule {
  const { onBusy = 'throw', returns: _, instance: __, signal, ...options } = withProfile(given, profiles, list);
  // With 'skip' or a fallback function a busy lock is expected, so the default is not to wait for it.
  const waitMs = options.waitMs ?? (onBusy === 'throw' ? undefined : 0);
  const told = { label: options.label ?? (describe ? shortLabel(method) : undefined), template: templateText(key), expectsBusy: onBusy !== 'throw' };
  return { options: Object.freeze({ ...options, waitMs, signal: typeof signal === 'function' ? undefined : signal, ...told }), onBusy };
}

function signalFunction(signal: CallableFunction, site: string): NonNullable<LockedCall['signalOf']> {
  return (args, self) => {
    const given: unknown = Reflect.apply(signal, self, args);
    if (given === undefined || isSignal(given)) return given;
    throw invalidOption(`expected its signal function to give an AbortSignal or undefined, got ${show(given)}`, undefined, site);
  };
}

/** The key before rendering, as one line of text for telemetry and events. */
function templateText(key: unknown): string {
  if (Array.isArray(key)) return key.map(templateText).join(' ');
  return typeof key === 'function' ? `${key.name || 'function'}()` : String(key);
}

/** The label of a call that was given none: the last bytes of `site` that fit, because the name of the method is at its end. */
export function shortLabel(site: string): string {
  let label = site;
  while (Buffer.byteLength(label) > LONGEST_LABEL_BYTES) label = label.slice(1);
  return label;
}

// The options that the decorators and LockInterceptor.of take, and their check when the class is defined: callers in JavaScript or
// behind a cast are not checked by the compiler. What depends on the module is checked at boot.

const example = '{ leaseMs: 5000 }';
const instance = expecting('the name of a lock module', (name) => typeof name === 'string' && name !== '');
const signal = expecting('an AbortSignal, or a function that gives one', (given) => typeof given === 'function' || isSignal(given));
const onBusy = expecting("'throw', 'skip' or a function", (given) => given === 'throw' || given === 'skip' || typeof given === 'function');
const routeNames: NamesOf<RouteLockOptions> = { ...lockOptionNames, onLost: true, awaitRelease: true, instance, signal };
const lockedNames: NamesOf<LockedOptions> = { ...routeNames, onBusy, returns: oneOf('promise', 'observable') };
const { mode: _saidByTheName, ...sidedNames } = lockedNames;
const leaderNames: NamesOf<LeaderOptions> = { leaseMs: true, graceMs: true, minReplicas: true, label: true, profile: true, restMs: true, instance };

/** The options of LockInterceptor.of. */
export const ROUTE_OPTIONS: OptionList = { names: routeNames, example };
/** The options of @Locked. */
export const LOCKED_OPTIONS: OptionList = { names: lockedNames, example };
/** The options of @WriteLock and @ReadLock, whose names say the mode. */
export const SIDED_OPTIONS: OptionList = { names: sidedNames, example };
/** The options of @Leader. */
export const LEADER_OPTIONS: OptionList = { names: leaderNames, example: '{ restMs: 5000 }' };

/** Checks the options of a decorator, if any were given. @throws LockUsageError that begins with `site`, the class and the method */
export function checkDecorator(given: unknown, list: OptionList, site: string): void {
  if (given !== undefined) checkOptions(given, { ...list, of: site });
}
