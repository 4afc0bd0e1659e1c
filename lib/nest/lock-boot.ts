/**
 * What a lock module checks when Nest has made all providers of the application: the options and keys of every locked
 * method, and methods and fields that hide a locked method without a lock. It also gives objects that a factory made their
 * interceptor, because Nest injects properties only into objects that it makes itself.
 */
import type { ModulesContainer } from '@nestjs/core';
import { foreignPlaceholder } from '../core/key/foreign-placeholder.js';
import { isLockError, LockUsageError } from '../core/port/errors.js';
import type { CallSite, ResolvedDefaults, WithLockOptions } from '../core/port/lock-options.js';
import { checkPermitsOf, resolveOptions } from '../core/port/options.js';
import type { StoreCapabilities } from '../core/port/lock-store.js';
import { methodName } from './decorated-method.js';
import { interceptorSlot, lockedMethods } from './lock-method.js';
import { INSTANCE_NAME, locksToken } from './lock-names.js';
import type { LockInterceptor } from './lock.interceptor.js';
import { callInModule, type LockedCall } from './locked-call.js';
import { ancestors, isFor, prototypeOf, prototypesOf, wrappersByModule } from './provided-objects.js';

/** One lock module, as it starts. */
export interface BootOfInstance {
  /** The name of the lock module. */
  readonly instance: string;
  readonly interceptor: LockInterceptor;
  /** The defaults and limits against which the options of every locked method are checked. */
  readonly limits: ResolvedDefaults;
  /** What the store can do; undefined when a route decides at each call which store is asked. */
  readonly capabilities: StoreCapabilities | undefined;
}

/**
 * Refuses two global lock modules of one name, because it would depend on the order of imports which of them a class gets.
 * @throws LockUsageError
 */
export function refuseTwins(modules: ModulesContainer, instance: string): void {
  const locks = locksToken(instance);
  const twins = [...modules.values()].filter((each) => each.isGlobal && each.providers.has(INSTANCE_NAME) && each.providers.has(locks));
  if (twins.length < 2) return;
  throw new LockUsageError(
    `LockModule '${instance}' is imported ${twins.length} times as a global module, and none of them knows what the others hold: a call inside a hold would wait for ` +
      `itself, and embedded locks would exclude nobody. Call forRoot once, in the root module; give a further instance a name (or isGlobal: false).`,
  );
}

/** What was found at boot and should be in the log, one sentence for each finding. */
interface BootFindings {
  /** Methods that override a locked method, and fields that hide one, which are not locked themselves. */
  readonly overrides: Set<string>;
  /** Keys that contain a placeholder of another notation, such as `{id}`, which is plain text in a key template. */
  readonly misread: Set<string>;
}

/**
 * Visits every provider and controller of the application, checks their locked methods, and sets missing interceptors.
 * @throws LockUsageError for a decorator whose options cannot work with those of the module
 */
export function visitProviders(modules: ModulesContainer, boot: BootOfInstance): BootFindings {
  const seen = new Set<object>();
  const findings: BootFindings = { overrides: new Set(), misread: new Set() };
  for (const { module, wrappers } of wrappersByModule(modules)) {
    const isOurs = isFor(module, boot);
    for (const { instance } of wrappers) {
      const made: unknown = instance;
      if (typeof made !== 'object' || made === null) continue;
      if (isOurs) handOver(made, boot);
      for (const field of hidingFields(made, boot)) findings.overrides.add(field);
      const prototype = prototypeOf(made);
      if (prototype === undefined || seen.has(prototype)) continue;
      seen.add(prototype);
      visitPrototype(prototype, boot, findings);
    }
  }
  return findings;
}

/** Interceptors whose lock module is closed. */
const retired = new WeakSet<object>();

/** What waits for an interceptor to retire: each sets that of another application on an object that is provided to both. */
const successions = new WeakMap<object, (() => void)[]>();

/**
 * Marks the interceptor of a lock module that is closed. An object that outlives its application, and is provided to another
 * one, gets the interceptor of the other one then.
 */
export function retire(interceptor: LockInterceptor): void {
  retired.add(interceptor);
  for (const succeed of successions.get(interceptor) ?? []) succeed();
  successions.delete(interceptor);
}

/** Sets the interceptor of an object that Nest did not construct: one from a factory or from `useValue`. */
function handOver(made: object, boot: BootOfInstance): void {
  const { instance, interceptor } = boot;
  const slot = interceptorSlot(instance);
  // The prototypes are asked and not the object, which may be a Proxy that lets nobody look at it.
  if (!prototypesOf(made).some((each) => Object.hasOwn(each, slot))) return;
  const present: unknown = Reflect.get(made, slot);
  if (typeof present !== 'object' || present === null || retired.has(present)) Reflect.set(made, slot, interceptor);
  else if (present !== interceptor) successions.set(present, [...(successions.get(present) ?? []), () => handOver(made, boot)]);
}

function visitPrototype(prototype: object, boot: BootOfInstance, { overrides, misread }: BootFindings): void {
  const chain = ancestors(prototype);
  chain.forEach((ancestor, depth) => {
    for (const [method, calls] of lockedMethods.of(ancestor)) {
      const ours = calls.filter(({ instance }) => instance === boot.instance);
      for (const call of ours) {
        const { options } = checkedAt(call.site, () => callInModule(call, true, boot.limits.profiles));
        checkRequest(options, call.site, boot, call.key);
        for (const problem of misreadKeys(call, parametersOf(ancestor, method))) misread.add(problem);
      }
      const nearer = chain.slice(0, depth).reverse();
      const override = nearer.find((descendant) => Object.hasOwn(descendant, method));
      if (ours[0] && override && !lockedMethods.of(override).has(method)) {
        overrides.add(`${methodName(override, method)} overrides the locked method ${ours[0].site}, but has no lock of its own: its calls run side by side. Give it a lock decorator.`);
      }
    }
  });
}

/** A field of the object (`override go = async () => …`) hides the method of its class, and the lock with it. */
function hidingFields(made: object, { instance }: BootOfInstance): string[] {
  const chain = prototypesOf(made);
  const sites = new Map<string | symbol, string>();
  for (const ancestor of chain) {
    for (const [method, calls] of lockedMethods.of(ancestor)) {
      const ours = calls.find((call) => call.instance === instance);
      if (ours && !sites.has(method)) sites.set(method, ours.site);
    }
  }
  return [...sites].filter(([method]) => isHidden(made, method, chain[0]!)).map(([method, site]) => {
    return `${methodName(made, method)} is a field that hides the locked method ${site}, and has no lock: its calls run side by side. Make it a method with a lock decorator.`;
  });
}

/** Whether the object has another function in the place of this method. The method bound to the object still calls the locked one. */
function isHidden(made: object, method: string | symbol, prototype: object): boolean {
  const field: unknown = Object.getOwnPropertyDescriptor(made, method)?.value;
  return typeof field === 'function' && !field.name.startsWith('bound ') && field !== Reflect.get(prototype, method);
}

function misreadKeys({ key, site, subject }: LockedCall, parameters: number): string[] {
  const keys: readonly unknown[] = Array.isArray(key) ? key : [key];
  const problems = keys.map((one) => (typeof one === 'string' ? foreignPlaceholder(one, parameters, subject) : undefined));
  return problems.flatMap((problem) => (problem === undefined ? [] : `${site}: ${problem}`));
}

function parametersOf(prototype: object, method: string | symbol): number {
  const found: unknown = Object.getOwnPropertyDescriptor(prototype, method)?.value;
  return typeof found === 'function' ? found.length : 0;
}

/** Checks the options of a decorator at boot, so that they do not fail at the first call. @throws LockUsageError */
export function checkRequest(options: WithLockOptions & CallSite, site: string, { limits, capabilities }: BootOfInstance, key?: unknown): void {
  const { minReplicas } = checkedAt(site, () => {
    const resolved = resolveOptions(options, limits);
    if (resolved.permits !== undefined) checkPermitsOf(Array.isArray(key) ? [...new Set(key)] : [key], resolved.permits, capabilities);
    return resolved;
  });
  if (minReplicas > 0 && capabilities?.replicas === false) {
    throw new LockUsageError(`${site} asks for minReplicas: ${minReplicas}, but its store has no replicas to count.`);
  }
}

/** The result of a check of a decorator's options. Its errors begin with class and method, because no call has made a key. @throws LockUsageError */
export function checkedAt<T>(site: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw isLockError(error) ? new LockUsageError(`${site}: ${error.message}`) : error;
  }
}
