/** What Nest has made or will make in an application: the objects of each module, their classes, and which lock module is theirs. */
import type { ModulesContainer } from '@nestjs/core';
import { interceptorToken } from './lock-names.js';
import type { LockInterceptor } from './lock.interceptor.js';

export type NestModule = ModulesContainer extends Map<string, infer Each> ? Each : never;

/**
 * Whether objects in `module` get the locks of this lock module. Of several of one name that are not global, they get those of the one
 * that Nest would inject there; if none would be, of whichever is first.
 */
export function isFor(module: NestModule, { instance, interceptor }: { readonly instance: string; readonly interceptor: LockInterceptor }): boolean {
  const injected = interceptorIn(module.imports, interceptorToken(instance), new Set());
  return injected === undefined || injected === interceptor;
}

/** What Nest finds for the token in these imports, and in what they export. */
function interceptorIn(imports: Iterable<NestModule>, token: symbol, seen: Set<NestModule>): unknown {
  for (const each of imports) {
    if (seen.has(each)) continue;
    seen.add(each);
    const exported = [...each.imports].filter(({ metatype }) => each.exports.has(metatype));
    const found: unknown = each.exports.has(token) ? each.providers.get(token)?.instance : interceptorIn(exported, token, seen);
    if (found !== undefined) return found;
  }
  return undefined;
}

type InstanceWrapper = NestModule['providers'] extends Map<unknown, infer Each> ? Each : never;

/** Each module of the application, with what Nest knows of its providers, controllers and injectables. */
export function wrappersByModule(modules: ModulesContainer): { readonly module: NestModule; readonly wrappers: readonly InstanceWrapper[] }[] {
  return [...modules.values()].map((module) => {
    const { providers, controllers, injectables } = module;
    return { module, wrappers: [providers, controllers, injectables].flatMap((group) => [...group.values()]) };
  });
}

/** The prototype of what a provider has made. Of a class that is made for each request Nest keeps an object of its prototype. */
export function prototypeOf(made: unknown): object | undefined {
  return typeof made === 'object' && made !== null ? (Object.getPrototypeOf(made) ?? undefined) : undefined;
}

/** The prototype and those that it inherits from, the nearest first. */
export function ancestors(prototype: object): object[] {
  const chain: object[] = [];
  let next: object | null = prototype;
  while (next !== null && next !== Object.prototype) {
    chain.push(next);
    next = Object.getPrototypeOf(next);
  }
  return chain;
}

/** The prototypes that the object inherits from, the nearest first. */
export function prototypesOf(made: object): object[] {
  return ancestors(Object.getPrototypeOf(made) ?? Object.prototype);
}
