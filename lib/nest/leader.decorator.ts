/**
 * @Leader: a method that runs while its process leads. The decorator only writes down the role, beside the prototype and not on
 * the function, and leaves the method as it is: so other decorators may stand above and below it. lock-boot.ts reads it.
 */
import type { LeadOptions } from '../core/hold/leading.js';
import { roleKey } from '../core/key/check-key.js';
import type { Lease } from '../core/port/lease.js';
import { checkDecorator, LEADER_OPTIONS, MethodRecords, methodName, methodOf, needInterceptor } from './locked.decorator.js';
import { DEFAULT_INSTANCE } from './lock-names.js';
import type { AnyMethod, OnField, Verdict } from './locked-method.js';

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
  MethodDecorator &
  OnField;

/** One role that a method leads. */
export interface LeaderMethod {
  /** Class and method, for messages: `IndexService.index`. */
  readonly site: string;
  readonly role: string;
  /** The name of the lock module that keeps the role's lock. */
  readonly instance: string;
  readonly options: LeadOptions;
}

/** The methods with @Leader. A method may lead several roles. */
export const leaderMethods = new MethodRecords<LeaderMethod>('leader-methods');

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
    const site = methodName(target, property);
    checkDecorator(given, LEADER_OPTIONS, site);
    roleKey(role);
    const { instance = DEFAULT_INSTANCE, ...options } = given ?? {};
    leaderMethods.add(target, property, { site, role, instance, options });
    needInterceptor(target, instance);
  };
}
