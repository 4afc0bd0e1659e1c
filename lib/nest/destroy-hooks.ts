/** When an application shuts down, Nest calls the hooks of the root module first, and those of global modules, as a lock module is, last. */
import type { ModulesContainer } from '@nestjs/core';

/**
 * Calls `act` when the application begins to shut down, before the first `onModuleDestroy` hook of the application: such a hook may wait
 * for work that ends only when a lock module tells it to. For that, the module whose hooks come first gets a provider.
 */
export function beforeAllDestroyHooks(modules: ModulesContainer, act: () => void): void {
  // The distance to the root module is 0 in a module that was loaded later, and Nest calls no hooks of it.
  const reached = [...modules.values()].filter(({ distance }) => distance > 0);
  const first = reached.reduce((nearest, module) => (module.distance <= nearest.distance ? module : nearest));
  const token = Symbol('nestjs-holdfast:shutdown');
  first.addProvider({ provide: token, useValue: { onModuleDestroy: act } });
  // Nest 12 calls the hooks of a module level by level, the highest first. Nest 11 begins all of them at once.
  first.providers.get(token)!.hierarchyLevel = Number.MAX_SAFE_INTEGER;
}
