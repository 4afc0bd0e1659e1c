/**
 * Replaces a method by one that goes through the LockInterceptor of its instance, and leaves everything else as it was.
 *
 *   - Nest keeps guards, routes, patterns and schedules as metadata of the function object. The replacement is a Proxy:
 *     what decorators below put on the function is copied, what they add to it later is inherited, and what decorators
 *     above put on the Proxy is where Nest looks. So the order of decorators does not matter.
 *   - The interceptor is injected into the instance, never looked up in a static: two applications, request scope and
 *     subclasses work, and a class whose lock module is missing fails at boot.
 */
import 'reflect-metadata';
import { Inject } from '@nestjs/common';
import { throwError } from 'rxjs';
import type { CallKey } from '../core/key/call-key.js';
import { LockUsageError } from '../core/port/errors.js';
import type { LockMode } from '../core/port/lock-mode.js';
import { LOCKED_OPTIONS, SIDED_OPTIONS } from './decorator-options.js';
import { interceptorToken } from './lock-names.js';
import type { LockInterceptor } from './lock.interceptor.js';
import { checkNames, lockedCall, type LockedCall } from './locked-call.js';
import type { LockedDecorator, LockedOptions, OnBusy, Returns, StopsWait } from './locked-method.js';

/** On a prototype: its locked methods. */
const LOCKED_METHODS = Symbol.for('nestjs-holdfast:locked-methods');

/** What a test module without locks comes to, when it puts mocks in the place of whatever it does not have. */
export const MOCKED =
  'but what was injected as its LockInterceptor is none: probably a mock (useMocker). Import locks into the test module: ' +
  'new TestLocks().asModule() of nestjs-holdfast/testing.';

/** Makes the decorator that `name` stands for in messages; `mode` is what that name says. */
export function lockMethod<K, R extends Returns, B extends OnBusy, S extends StopsWait>(
  name: string,
  key: K,
  options: LockedOptions<R, B, S> | undefined,
  mode?: LockMode,
): LockedDecorator<K, R, B, S>;
// What the compiler asks of the method is said by the result type above and is nothing that happens at run time.
export function lockMethod(name: string, key: CallKey, options: LockedOptions | undefined, mode?: LockMode): MethodDecorator {
  return (target: object, property: string | symbol, descriptor?: PropertyDescriptor): void => {
    const method = methodOf(name, target, property, descriptor);
    const place = `${target.constructor.name || 'an anonymous class'}.${String(property)}`;
    checkNames(options, mode === undefined ? LOCKED_OPTIONS : SIDED_OPTIONS, place);
    const call = lockedCall(key, mode === undefined ? { ...options } : { ...options, mode }, place);
    register(target, property, call);
    // Changed in place: a composed decorator (applyDecorators) does not pass on what we would return.
    if (descriptor) descriptor.value = locked(method, call);
  };
}

/** The locked methods of one prototype, without those of its ancestors, each with its locks, the inner one first. */
export function lockedMethodsOf(prototype: object): ReadonlyMap<string | symbol, readonly LockedCall[]> {
  const found: unknown = Reflect.getOwnMetadata(LOCKED_METHODS, prototype);
  return found instanceof Map ? found : new Map();
}

/** The property by which an instance holds the interceptor of a lock module. */
export function interceptorSlot(instance: string): symbol {
  return Symbol.for(`nestjs-holdfast:interceptor:${instance}`);
}

function methodOf(
  name: string,
  target: object,
  property: string | symbol,
  descriptor: PropertyDescriptor | undefined,
): CallableFunction {
  if (descriptor === undefined && (typeof property === 'string' || typeof property === 'symbol')) {
    const place = `${typeof target === 'function' ? target.name : target.constructor.name}.${String(property)}`;
    throw new LockUsageError(`${place} is a property, and @${name} decorates methods. Make it a method.`);
  }
  if (typeof property === 'object' || descriptor === undefined) {
    throw new LockUsageError(`@${name} decorates methods, with "experimentalDecorators" switched on as Nest needs it.`);
  }
  const place = `${typeof target === 'function' ? target.name : target.constructor.name}.${String(property)}`;
  if (typeof target === 'function') {
    throw new LockUsageError(`${place} is static, where nothing can be injected. Use LockService.withLock, or make it a method.`);
  }
  const method: unknown = descriptor.value;
  if (typeof method === 'function') return method;
  throw new LockUsageError(`${place} is no method: @${name} locks calls of methods only.`);
}

/** Makes {@link lockedMethodsOf} know that this method goes through `call`. */
export function recordLock(prototype: object, property: string | symbol, call: LockedCall): void {
  const known = lockedMethodsOf(prototype);
  const calls = [...(known.get(property) ?? []), call];
  Reflect.defineMetadata(LOCKED_METHODS, new Map([...known, [property, calls]]), prototype);
}

function register(prototype: object, property: string | symbol, call: LockedCall): void {
  recordLock(prototype, property, call);
  const slot = interceptorSlot(call.instance);
  if (slot in prototype) return;
  Object.defineProperty(prototype, slot, {
    configurable: true,
    get: () => undefined,
    // What Nest assigns becomes a hidden property: it shall not show in logs, comparisons and copies of the instance.
    set(this: object, interceptor: LockInterceptor) {
      Object.defineProperty(this, slot, { value: interceptor, configurable: true, writable: true });
    },
  });
  Inject(interceptorToken(call.instance))(prototype, slot);
}

function locked(method: CallableFunction, call: LockedCall): CallableFunction {
  const slot = interceptorSlot(call.instance);
  const proxy = new Proxy(method, {
    apply: (_method, self: unknown, args: unknown[]) => {
      const interceptor = interceptorOf(self, slot);
      if (typeof interceptor?.around !== 'function') return withoutInterceptor(call, self, interceptor);
      return interceptor.around(call, args, () => Reflect.apply(method, self, args));
    },
    getPrototypeOf: () => method,
  });
  for (const key of Reflect.getOwnMetadataKeys(method)) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, method), proxy);
  }
  return proxy;
}

function interceptorOf(self: unknown, slot: symbol): LockInterceptor | undefined {
  return typeof self === 'object' && self !== null ? Reflect.get(self, slot) : undefined;
}

function withoutInterceptor({ place, returns }: LockedCall, self: unknown, found: unknown): unknown {
  const error = new LockUsageError(`${place} is locked${reasonFor(self, found)}`);
  return returns === 'observable' ? throwError(() => error) : Promise.reject(error);
}

function reasonFor(self: unknown, found: unknown): string {
  if (found !== undefined) return `, ${MOCKED}`;
  if (typeof self === 'object' && self !== null) {
    return (
      ', but its object was not made by Nest (but with new, or by a factory that is not a singleton), so it has no lock module. ' +
      'Make it a provider and inject it.'
    );
  }
  return ` and was called without its object (this is ${typeof self}). Call it as a method, or bind it.`;
}
