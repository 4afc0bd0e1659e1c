/**
 * Finds methods that carry a LockInterceptor.of where Nest calls no interceptor, so that nothing would be locked and nobody would be told.
 * What calls a method is read from the metadata that decorators left on it.
 */
import 'reflect-metadata';
import type { ModulesContainer } from '@nestjs/core';
import { LockUsageError } from '../core/port/errors.js';
import { methodName } from './decorated-method.js';
import { leaderMethods } from './leader.decorator.js';
import { lockedMethods } from './lock-method.js';
import { ancestors, prototypeOf, wrappersByModule } from './provided-objects.js';

/** What Nest calls through its interceptors. */
const SERVED = ['path', 'microservices:pattern', 'websockets:message_mapping', 'graphql:resolver_type'];
/** GraphQL fields, which Nest calls through interceptors if its GraphQL module is told so. */
const FIELDS = ['graphql:resolve_property', 'graphql:resolve_reference'];
/** What is called directly. */
const DIRECT: Readonly<Record<string, string>> = {
  SCHEDULE_CRON_OPTIONS: '@Cron',
  SCHEDULE_INTERVAL_OPTIONS: '@Interval',
  SCHEDULE_TIMEOUT_OPTIONS: '@Timeout',
  EVENT_LISTENER_METADATA: '@OnEvent',
  'bullmq:worker_events_metadata': '@OnWorkerEvent',
  'bullmq:queue_events_metadata': '@OnQueueEvent',
  'bull:module_queue_process': '@Process',
  'bull:module_on_queue_event': '@OnQueueEvent',
};
/** Metadata of a method that says nothing about who calls it. */
const SAYS_NOTHING = /^(design:|swagger\/|__)/;

/** How a method is called: undefined when it is through interceptors, or when only whoever reads its further metadata knows. */
type Unreached = { readonly why: string; readonly way?: string } | undefined;

/**
 * Looks at every method of the application that carries an interceptor of this lock module, itself or by its class.
 * @throws LockUsageError for one that Nest never calls through interceptors
 */
export function refuseUnreached(modules: ModulesContainer, instance: string): void {
  const all = wrappersByModule(modules).flatMap(({ wrappers }) => wrappers);
  const fields = fieldsHaveInterceptors(all);
  for (const prototype of new Set(all.map((wrapper) => prototypeOf(wrapper.instance)))) {
    if (prototype === undefined) continue;
    const methods = methodsOf(prototype).map(([name, method]) => ({ name, method, unreached: unreached(prototype, name, method, fields) }));
    for (const { name, method, unreached } of methods) {
      const site = lockOf(method, instance);
      if (site !== undefined && unreached) throw refused(methodName(prototype, name), site, unreached);
    }
    const site = lockOf(prototype.constructor, instance);
    const [first] = methods;
    if (site !== undefined && first?.unreached && methods.every((each) => each.unreached)) throw refused(methodName(prototype, first.name), site, first.unreached);
  }
}

function unreached(prototype: object, name: string, method: object, fields: boolean | undefined): Unreached {
  if (ancestors(prototype).some((each) => leaderMethods.of(each).has(name))) return { why: '@Leader calls the method directly' };
  const keys = Reflect.getMetadataKeys(method) as readonly unknown[];
  const direct = keys.find((key): key is string => typeof key === 'string' && Object.hasOwn(DIRECT, key));
  if (direct !== undefined) return { why: `${DIRECT[direct]} calls the method directly` };
  if (keys.some((key) => FIELDS.includes(String(key))) && !keys.some((key) => SERVED.includes(String(key)))) {
    if (fields !== false) return undefined;
    return { why: "Nest calls those of a GraphQL field only with fieldResolverEnhancers: ['interceptors']", way: 'Give GraphQLModule.forRoot that option, or put' };
  }
  return keys.every((key) => SAYS_NOTHING.test(String(key))) ? { why: 'the method is no route, resolver or message handler' } : undefined;
}

/** What GraphQL modules say of interceptors of fields: true if one of them wants them, undefined when there is no such module. */
function fieldsHaveInterceptors(wrappers: readonly { readonly token: unknown; readonly instance: unknown }[]): boolean | undefined {
  const found = wrappers.filter(({ token }) => token === 'GqlModuleOptions').map(({ instance }) => instance as { fieldResolverEnhancers?: readonly string[] } | null);
  return found.length === 0 ? undefined : found.some((options) => options?.fieldResolverEnhancers?.includes('interceptors'));
}

/** How messages name the LockInterceptor.of of this lock module that a method or class carries; undefined when it carries none. */
function lockOf(carrier: object, instance: string): string | undefined {
  const given: unknown = Reflect.getMetadata('__interceptors__', carrier);
  const classes = (Array.isArray(given) ? given : []).filter((each): each is { prototype: object } => typeof each === 'function');
  const calls = classes.flatMap(({ prototype }) => ancestors(prototype).flatMap((each) => lockedMethods.of(each).get('intercept') ?? []));
  return calls.find((call) => call.instance === instance)?.site;
}

/** The methods of a class and of those that it extends, the nearest of each name. */
function methodsOf(prototype: object): (readonly [string, CallableFunction])[] {
  const found = new Map<string, unknown>();
  for (const each of ancestors(prototype)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(each))) if (!found.has(name)) found.set(name, value);
  }
  return [...found].filter((entry): entry is [string, CallableFunction] => entry[0] !== 'constructor' && typeof entry[1] === 'function');
}

function refused(method: string, site: string, { why, way = 'Put' }: NonNullable<Unreached>): LockUsageError {
  return new LockUsageError(`${method} has ${site}, but no interceptor runs there, so nothing would be locked: ${why}. ${way} @Locked on the method instead.`);
}
