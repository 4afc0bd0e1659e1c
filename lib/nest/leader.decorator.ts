/**
 * @Leader: a method that runs while its process leads. The decorator only writes down the role, beside the prototype and not on
 * the function, and leaves the method as it is: so other decorators may stand above and below it. leader-boot.ts reads it.
 */
import 'reflect-metadata';
import type { LeadOptions } from '../core/hold/leadership.js';
import { roleKey } from '../core/key/role-key.js';
import type { Lease } from '../core/port/lease.js';
import { checkDecorator, LEADER_OPTIONS } from './decorator-options.js';
import { methodOf, needInterceptor } from './lock-method.js';
import { DEFAULT_INSTANCE } from './lock-names.js';
import type { AnyMethod, Verdict } from './locked-method.js';

/** The metadata key under which a prototype lists its methods with @Leader. */
const LEADER_METHODS = Symbol.for('nestjs-holdfast:leader-methods');

/** Options of @Leader. */
export interface LeaderOptions extends LeadOptions {
  /**
   * The `name` of the LockModule that keeps the role's lock.
   * @default 'default', the module without a name
   */
  instance?: string | undefined;
}

/** A decorator of methods `(term: Lease) => Promise<void>`. On another method it does not compile, and the error message says why. */
export type LeaderDecorator = (<M extends AnyMethod>(
  target: object,
  property: string | symbol,
  descriptor: TypedPropertyDescriptor<M>,
) => Verdict<M extends (term: Lease) => Promise<void> ? never : 'a method with @Leader takes the term, a Lease, and returns Promise<void>'>) &
  MethodDecorator;

/** One role that a method leads. */
export interface LeaderMethod {
  /** Class and method, for messages: `IndexService.index`. */
  readonly place: string;
  readonly role: string;
  /** The name of the lock module that keeps the role's lock. */
  readonly instance: string;
  readonly options: LeadOptions;
}

/**
 * Runs the method in one process at a time, of all processes that share the store. From the start of the application to its shutdown
 * this process stands for election, and the method runs while the process leads.
 *
 *     @Leader('indexer')
 *     async index(term: Lease): Promise<void> {
 *       while (!term.signal.aborted) await this.indexNextBatch(term.fence);
 *     }
 *
 * The method must end when `term.signal` aborts. When it returns, this process rests for `restMs` and stands again. When it fails,
 * the log and an event say so, and the rest grows. The class must be a singleton. Throws LockKeyError or LockUsageError
 * when the class is defined; the boot fails with LockUsageError for a class that is request-scoped or transient.
 */
export function Leader(role: string, options?: LeaderOptions): LeaderDecorator;
// LeaderDecorator only tells the compiler what the method must look like; at run time this is an ordinary method decorator.
export function Leader(role: string, given: LeaderOptions | undefined): MethodDecorator {
  return (target: object, property: string | symbol, descriptor?: PropertyDescriptor): void => {
    methodOf('Leader', 'lead', target, property, descriptor);
    const place = `${target.constructor.name || 'an anonymous class'}.${String(property)}`;
    checkDecorator(given, LEADER_OPTIONS, place);
    roleKey(role);
    const { instance = DEFAULT_INSTANCE, ...options } = given ?? {};
    const known = leaderMethodsOf(target);
    const roles = [...(known.get(property) ?? []), { place, role, instance, options }];
    Reflect.defineMetadata(LEADER_METHODS, new Map([...known, [property, roles]]), target);
    needInterceptor(target, instance);
  };
}

/** The roles that methods of one prototype lead, without those of its ancestors. */
export function leaderMethodsOf(prototype: object): ReadonlyMap<string | symbol, readonly LeaderMethod[]> {
  const found: unknown = Reflect.getOwnMetadata(LEADER_METHODS, prototype);
  return found instanceof Map ? found : new Map();
}
