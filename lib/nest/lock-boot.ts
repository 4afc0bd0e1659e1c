/**
 * What a lock module checks when Nest has made all providers of the application: the options and keys of every locked
 * method, and methods that override a locked one without a lock. It also gives objects that a factory made their
 * interceptor, because Nest injects properties only into objects that it makes itself.
 */
import 'reflect-metadata';
import { type DiscoveryService, MetadataScanner, type ModulesContainer } from '@nestjs/core';
import { foreignPlaceholder } from './key-template.js';
import { isLockError, LockUsageError } from '../core/port/errors.js';
import type { CallSite, ResolvedDefaults, WithLockOptions } from '../core/port/lock-options.js';
import { checkPermitsOf, resolveOptions } from '../core/port/options.js';
import type { StoreCapabilities } from '../core/port/lock-store.js';
import { callInModule, interceptorSlot, lockedMethods, methodName, shortLabel } from './locked.decorator.js';
import { INSTANCE_NAME, interceptorToken } from './lock-names.js';
import type { LockInterceptor } from './lock.interceptor.js';
import { termOptions, type LeadOptions } from '../core/hold/leading.js';
import { roleKey } from '../core/key/check-key.js';
import { leaderMethods, type LeaderMethod } from './leader.decorator.js';
import type { LockService } from '../lock.service.js';

/** One lock module, as it starts. */
interface BootOfInstance {
  /** The name of the lock module. */
  readonly instance: string;
  readonly interceptor: LockInterceptor;
  /** The defaults and limits against which the options of every locked method are checked. */
  readonly limits: ResolvedDefaults;
  /** What the store can do; undefined when a route decides at each call which store is asked. */
  readonly capabilities: StoreCapabilities | undefined;
}

/**
 * Refuses two lock modules of one name, because it would depend on the order of imports which of them a class gets.
 * @throws LockUsageError
 */
export function refuseTwins(modules: ModulesContainer, instance: string): void {
  // Not the token of LockService, which is another class in another copy of this package.
  const twins = [...modules.values()].filter(
    ({ providers }) => providers.has(interceptorToken(instance)) && providers.get(INSTANCE_NAME)?.instance === instance,
  );
  if (twins.length < 2) return;
  throw new LockUsageError(
    `LockModule '${instance}' is imported ${twins.length} times, and none of them knows what the others hold: a call inside a hold would wait for ` +
      `itself, and embedded locks would exclude nobody. Call forRoot once, in the root module, and of one copy of nestjs-holdfast (npm ls nestjs-holdfast); give a further instance a name.`,
  );
}

/** What was found at boot. Each of the texts is a sentence for the log. */
interface BootFindings {
  /** Methods that override a locked method and are not locked themselves. */
  readonly overrides: Set<string>;
  /** Keys that contain a placeholder of another notation, such as `{id}`, which is plain text in a key template. */
  readonly misread: Set<string>;
  /** The methods whose roles this lock module keeps, by their objects. */
  readonly candidates: Map<object, readonly Candidate[]>;
}

/**
 * Visits every provider and controller of the application, checks their locked methods and those that lead, and sets missing interceptors.
 * @throws LockUsageError for a decorator whose options cannot work with those of the module, and for a leader that is no singleton
 */
export function visitProviders(modules: ModulesContainer, boot: BootOfInstance): BootFindings {
  const seen = new Set<object>();
  const findings: BootFindings = { overrides: new Set(), misread: new Set(), candidates: new Map() };
  for (const found of objectsOf(modules)) {
    const { made, chain } = found;
    const [prototype] = chain;
    if (prototype === undefined) continue;
    handOver(made, chain, boot);
    findings.candidates.set(made, candidatesOf(found, boot));
    if (seen.has(prototype)) continue;
    seen.add(prototype);
    visitClass(chain, boot, findings);
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
function handOver(made: object, chain: readonly object[], boot: BootOfInstance): void {
  const { instance, interceptor } = boot;
  const slot = interceptorSlot(instance);
  // The prototypes are asked and not the object, which may be a Proxy that lets nobody look at it.
  if (!chain.some((each) => Object.hasOwn(each, slot))) return;
  const present: unknown = Reflect.get(made, slot);
  if (typeof present !== 'object' || present === null || retired.has(present)) Reflect.set(made, slot, interceptor);
  else if (present !== interceptor) successions.set(present, [...(successions.get(present) ?? []), () => handOver(made, chain, boot)]);
}

function visitClass(chain: readonly object[], boot: BootOfInstance, { overrides, misread }: BootFindings): void {
  chain.forEach((ancestor, depth) => {
    for (const [method, calls] of lockedMethods.of(ancestor)) {
      const ours = calls.filter(({ instance }) => instance === boot.instance);
      for (const call of ours) {
        checkRequest(call.site, boot, () => callInModule(call, true, boot.limits.profiles).options, call.key);
        for (const one of [call.key].flat()) {
          const text = typeof one === 'string' ? foreignPlaceholder(one, call.parameters) : undefined;
          if (text !== undefined) misread.add(`${call.site}: ${text}`);
        }
      }
      const nearer = chain.slice(0, depth).reverse();
      const override = nearer.find((descendant) => Object.hasOwn(descendant, method));
      if (ours[0] && override && !lockedMethods.of(override).has(method)) {
        overrides.add(`${methodName(override, method)} overrides the locked method ${ours[0].site}, but has no lock of its own: its calls run side by side, except inside super.${String(method)}(). Give it a lock decorator.`);
      }
    }
  });
}

/**
 * Checks the options of a decorator, or the defaults of the module, at boot, so that they do not fail at the first call. `optionsOf` completes
 * them, and may refuse them itself. @throws LockUsageError that begins with class and method (`site`), because no call has made a key
 */
export function checkRequest(site: string, { limits, capabilities }: BootOfInstance, optionsOf: () => WithLockOptions & CallSite, key?: unknown): void {
  try {
    const { permits, minReplicas } = resolveOptions(optionsOf(), limits);
    if (permits !== undefined) checkPermitsOf(Array.isArray(key) ? [...new Set(key)] : [key], permits, capabilities);
    if (minReplicas > 0 && capabilities?.replicas === false) throw new LockUsageError(`minReplicas is ${minReplicas}, but its store has no replicas to count.`);
  } catch (error) {
    throw isLockError(error) ? new LockUsageError(`${site}: ${error.message}`) : error;
  }
}

// The methods with @Leader, which stand for election when the application has booted.

/** A method of an object that stands for a role. */
export interface Candidate extends LeaderMethod {
  readonly object: object;
  readonly property: string | symbol;
}

/** The roles that an object leads, by its class and those that it extends. A class that decorates a method again says anew what it leads. */
function candidatesOf({ made, chain, wrapper }: Found, boot: BootOfInstance): readonly Candidate[] {
  const nearest = new Map<string | symbol, readonly LeaderMethod[]>();
  for (const ancestor of chain) {
    for (const [property, methods] of leaderMethods.of(ancestor)) if (!nearest.has(property)) nearest.set(property, methods);
  }
  return [...nearest].flatMap(([property, methods]) =>
    methods.filter(({ instance }) => instance === boot.instance).map((method) => {
      if (wrapper.isTransient || !wrapper.isDependencyTreeStatic()) throw scoped(method, made.constructor.name);
      checkRequest(method.site, boot, () => termOptions(method.options, roleKey(method.role), boot.limits.profiles).request);
      return { ...method, object: made, property };
    }),
  );
}

/** Lets a candidate stand until the module is closed. */
export function stand({ object, property, role, site, options }: Candidate, locks: Pick<LockService, 'lead'>, describe: boolean): void {
  const given: LeadOptions & CallSite = describe ? { ...options, label: options.label ?? shortLabel(site) } : options;
  locks.lead(role, (term) => Reflect.apply(Reflect.get(object, property), object, [term]), given);
}

function scoped({ site, role }: LeaderMethod, name: string): LockUsageError {
  return new LockUsageError(
    `${site} has @Leader('${role}'), but ${name} is request-scoped or transient, or something that it injects is: there is no one ` +
      'object that could lead. Put the method into a singleton that injects singletons only.',
  );
}

// Finds methods that carry a LockInterceptor.of where Nest calls no interceptor, so that nothing would be locked and nobody would be told.
// What calls a method is read from the metadata that decorators left on it.

/** What Nest calls through its interceptors. */
const SERVED = ['path', 'microservices:pattern', 'websockets:message_mapping', 'graphql:resolver_type'];
/** GraphQL fields, which Nest calls through interceptors if its GraphQL module is told so. */
const FIELDS = ['graphql:resolve_property', 'graphql:resolve_reference'];
/** What is called directly: schedules (@Cron, @Interval, @Timeout), listeners (@OnEvent), and jobs and events of queues. */
const DIRECT = /^(SCHEDULE_(CRON|INTERVAL|TIMEOUT)_OPTIONS|EVENT_LISTENER_METADATA|bull(mq)?:.*)$/;
/** Metadata of a method that says nothing about who calls it. */
const SAYS_NOTHING = /^(design:|swagger\/|__)/;

/**
 * How a method is called: undefined when it is through interceptors, or when only whoever reads its further metadata knows. `isDirect`: it is called
 * by what its decorator says, so that the interceptor of its class would be missed there. Other methods of the class are helpers.
 */
type Unreached = { readonly why: string; readonly way?: string; readonly isDirect?: true } | undefined;

/**
 * Looks at every method of the application that carries an interceptor of this lock module, itself or by its class.
 * @throws LockUsageError for one that Nest never calls through interceptors
 */
export function refuseUnreached(modules: ModulesContainer, instance: string): void {
  const all = objectsOf(modules);
  const scanner = new MetadataScanner();
  const fields = fieldsHaveInterceptors(all);
  for (const prototype of new Set(all.flatMap(({ chain }) => chain.slice(0, 1)))) {
    const methods = scanner.getAllMethodNames(prototype).map((name) => {
      const method = Reflect.get(prototype, name) as CallableFunction;
      return { name, site: lockOf(method, instance), unreached: unreached(prototype, name, method, fields) };
    });
    for (const { name, site, unreached } of methods) if (site !== undefined && unreached) throw refused(methodName(prototype, name), site, unreached);
    const site = lockOf(prototype.constructor, instance);
    const missed = methods.find((each) => each.unreached?.isDirect) ?? (methods.every((each) => each.unreached) ? methods[0] : undefined);
    if (site !== undefined && missed?.unreached) throw refused(methodName(prototype, missed.name), site, missed.unreached);
  }
}

function unreached(prototype: object, name: string, method: object, fields: boolean | undefined): Unreached {
  if (ancestors(prototype).some((each) => leaderMethods.of(each).has(name))) return { why: '@Leader calls the method directly', isDirect: true };
  const keys = Reflect.getMetadataKeys(method) as readonly unknown[];
  if (keys.some((key) => DIRECT.test(String(key)))) return { why: 'schedules, events and queues call the method directly', isDirect: true };
  if (keys.some((key) => FIELDS.includes(String(key))) && !keys.some((key) => SERVED.includes(String(key)))) {
    if (fields !== false) return undefined;
    return { why: "Nest calls those of a GraphQL field only with fieldResolverEnhancers: ['interceptors']", way: 'Give GraphQLModule.forRoot that option, or put' };
  }
  return keys.every((key) => SAYS_NOTHING.test(String(key))) ? { why: 'the method is no route, resolver or message handler' } : undefined;
}

/** What GraphQL modules say of interceptors of fields: true if one of them wants them, undefined when there is no such module. */
function fieldsHaveInterceptors(all: readonly Found[]): boolean | undefined {
  const found = all.filter(({ wrapper }) => wrapper.token === 'GqlModuleOptions').map(({ made }) => made as { fieldResolverEnhancers?: readonly string[] });
  return found.length === 0 ? undefined : found.some((options) => options.fieldResolverEnhancers?.includes('interceptors'));
}

/** How messages name the LockInterceptor.of of this lock module that a method or class carries; undefined when it carries none. */
function lockOf(carrier: object, instance: string): string | undefined {
  const given: unknown = Reflect.getMetadata('__interceptors__', carrier);
  const classes = (Array.isArray(given) ? given : []).filter((each): each is { prototype: object } => typeof each === 'function');
  const calls = classes.flatMap(({ prototype }) => ancestors(prototype).flatMap((each) => lockedMethods.of(each).get('intercept') ?? []));
  return calls.find((call) => call.instance === instance)?.site;
}

function refused(method: string, site: string, { why, way = 'Put' }: NonNullable<Unreached>): LockUsageError {
  return new LockUsageError(`${method} has ${site}, but no interceptor runs there, so nothing would be locked: ${why}. ${way} @Locked on the method instead.`);
}

// What Nest has made or will make in an application: the objects and their classes.

type InstanceWrapper = ReturnType<DiscoveryService['getProviders']>[number];

/**
 * An object of an application, and the prototypes that it inherits from, the nearest first. Of a class that is made for each request Nest keeps an
 * object of its prototype.
 */
interface Found {
  readonly made: object;
  readonly chain: readonly object[];
  readonly wrapper: InstanceWrapper;
}

/** The objects of the providers, controllers and injectables of all modules. */
function objectsOf(modules: ModulesContainer): Found[] {
  const wrappers = [...modules.values()].flatMap(({ providers, controllers, injectables }) =>
    [providers, controllers, injectables].flatMap((group): InstanceWrapper[] => [...group.values()]),
  );
  return wrappers.flatMap((wrapper) => {
    const made: unknown = wrapper.instance;
    return typeof made === 'object' && made !== null ? [{ made, wrapper, chain: ancestors(Object.getPrototypeOf(made) as object | null) }] : [];
  });
}

/** The prototype and those that it inherits from, the nearest first. */
function ancestors(prototype: object | null): object[] {
  const chain: object[] = [];
  for (let next = prototype; next !== null && next !== Object.prototype; next = Object.getPrototypeOf(next) as object | null) chain.push(next);
  return chain;
}
