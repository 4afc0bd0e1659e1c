/** Finds the methods with @Leader in an application that boots, and lets them stand for election when it has booted. */
import type { ModulesContainer } from '@nestjs/core';
import { termOptions, type LeadOptions } from '../core/hold/leading.js';
import { roleKey } from '../core/key/check-key.js';
import { LockUsageError } from '../core/port/errors.js';
import type { CallSite } from '../core/port/lock-options.js';
import { leaderMethods, type LeaderMethod } from './leader.decorator.js';
import { checkedAt, checkRequest, type BootOfInstance } from './lock-boot.js';
import { interceptorSlot } from './lock-method.js';
import type { Locks } from './lock-router.js';
import { shortLabel } from './locked-call.js';
import { ancestors, isFor, prototypeOf, wrappersByModule, type NestModule } from './provided-objects.js';

/** A method of an object that stands for a role. */
export interface Candidate extends LeaderMethod {
  readonly object: object;
  readonly property: string | symbol;
}

/**
 * The methods of all singletons of the application whose roles this lock module keeps.
 * @throws LockUsageError for a class that is no singleton, and for options that cannot work with those of the module
 */
export function findCandidates(modules: ModulesContainer, boot: BootOfInstance): Candidate[] {
  const candidates = new Map<object, readonly Candidate[]>();
  for (const { module, wrappers } of wrappersByModule(modules)) {
    for (const wrapper of wrappers) {
      const made: unknown = wrapper.instance;
      const roles = leadersOf(prototypeOf(made), boot.instance);
      if (roles.length === 0 || typeof made !== 'object' || made === null) continue;
      if (wrapper.isTransient || !wrapper.isDependencyTreeStatic()) throw scoped(roles[0]![1], made.constructor.name);
      if (isOurs(made, module, boot)) candidates.set(made, roles.map(([property, method]) => candidate(made, property, method, boot)));
    }
  }
  return [...candidates.values()].flat();
}

/** Lets a candidate stand until the module is closed. */
export function stand({ object, property, role, site, options }: Candidate, locks: Pick<Locks, 'lead'>, describe: boolean): void {
  const given: LeadOptions & CallSite = describe ? { ...options, label: options.label ?? shortLabel(site) } : options;
  locks.lead(role, (term) => Reflect.apply(Reflect.get(object, property), object, [term]), given);
}

/** Of several lock modules of one name that are not global, the one whose interceptor the object has, or would have if it could be set. */
function isOurs(made: object, module: NestModule, boot: BootOfInstance): boolean {
  const found: unknown = Reflect.get(made, interceptorSlot(boot.instance));
  return found === undefined ? isFor(module, boot) : found === boot.interceptor;
}

function candidate(object: object, property: string | symbol, method: LeaderMethod, boot: BootOfInstance): Candidate {
  const { request } = checkedAt(method.site, () => termOptions(method.options, roleKey(method.role), boot.limits.profiles));
  checkRequest(request, method.site, boot);
  return { ...method, object, property };
}

/** The roles of a class and of those that it extends. A class that decorates a method again says anew what it leads. */
function leadersOf(prototype: object | undefined, instance: string): (readonly [string | symbol, LeaderMethod])[] {
  const nearest = new Map<string | symbol, readonly LeaderMethod[]>();
  for (const ancestor of prototype ? ancestors(prototype) : []) {
    for (const [property, methods] of leaderMethods.of(ancestor)) if (!nearest.has(property)) nearest.set(property, methods);
  }
  return [...nearest].flatMap(([property, methods]) => methods.filter((one) => one.instance === instance).map((one) => [property, one] as const));
}

function scoped({ site, role }: LeaderMethod, name: string): LockUsageError {
  return new LockUsageError(
    `${site} has @Leader('${role}'), but ${name} is request-scoped or transient, or something that it injects is: there is no one ` +
      'object that could lead. Put the method into a singleton that injects singletons only.',
  );
}
