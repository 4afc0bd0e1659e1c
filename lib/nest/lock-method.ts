/**
 * Replaces a method by a Proxy whose calls go through a LockInterceptor, and leaves everything else of the method as it was.
 *
 *   - Nest keeps guards, routes, patterns and schedules as metadata of the function object. Metadata that decorators below
 *     this one put on the method is copied to the Proxy, metadata that they add later is inherited, and decorators above
 *     this one write to the Proxy itself, which is where Nest reads it. So the order of decorators does not matter.
 *   - The interceptor is injected into the object that has the method, and is not looked up in a static variable: so two
 *     applications in one process, request scope and subclasses work, and a class whose lock module is missing fails at boot.
 */
import 'reflect-metadata';
import { Inject } from '@nestjs/common';
import { throwError } from 'rxjs';
import { compileCallKey, type CallKey } from '../core/key/call-key.js';
import { LockUsageError } from '../core/port/errors.js';
import type { LockMode } from '../core/port/lock-options.js';
import { checkDecorator, LOCKED_OPTIONS, SIDED_OPTIONS, lockedCall, type LockedCall } from './locked-call.js';
import { interceptorToken } from './lock-names.js';
import type { LockInterceptor } from './lock.interceptor.js';
import type { LockedDecorator, LockedOptions, OnBusy, Returns, StopsWait } from './locked-method.js';
import type { LockService } from '../lock.service.js';

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

/** Makes a lock decorator. `name` is its name in messages; `mode` is given when the decorator's name says the mode. */
export function lockMethod<K, R extends Returns, B extends OnBusy, S extends StopsWait>(
  name: string,
  key: K,
  options: LockedOptions<R, B, S> | undefined,
  mode?: LockMode,
): LockedDecorator<K, R, B, S>;
// LockedDecorator only tells the compiler what the method must look like; at run time this is an ordinary method decorator.
export function lockMethod(name: string, key: CallKey, options: LockedOptions | undefined, mode?: LockMode): MethodDecorator {
  if (typeof options === 'string' || typeof options === 'symbol') {
    throw new LockUsageError(`${methodName(key as object, options)}: @${name} has no key. Write @${name}('order:<0>').`);
  }
  return (target: object, property: string | symbol, descriptor?: PropertyDescriptor): void => {
    const method = methodOf(name, 'withLock', target, property, descriptor);
    const site = methodName(target, property);
    checkDecorator(options, mode === undefined ? LOCKED_OPTIONS : SIDED_OPTIONS, site);
    const keys = { key, subject: 'arguments', keyOf: compileCallKey(key, site) } as const;
    const call = lockedCall(keys, mode === undefined ? { ...options } : { ...options, mode }, site);
    lockedMethods.add(target, property, call);
    needInterceptor(target, call.instance);
    // The descriptor is changed in place, because Nest's applyDecorators ignores a descriptor that a decorator returns.
    if (descriptor) descriptor.value = locked(method, call);
  };
}

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
      if (typeof interceptor?.around !== 'function') return withoutInterceptor(call, self, interceptor);
      return interceptor.around(call, args, () => Reflect.apply(method, self, args), self);
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
