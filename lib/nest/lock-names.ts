/**
 * Under which names Nest finds the parts of a lock module. All are `Symbol.for`, so that an import and a require of
 * this package, which may be two copies of it, mean the same provider.
 */
import { Inject } from '@nestjs/common';
import { LockService } from '../lock.service.js';

/** The instance that is meant where none is named. */
export const DEFAULT_INSTANCE = 'default';

/** The interceptor of an instance. Its text is what Nest prints at boot when the lock module is missing. */
export function interceptorToken(instance: string): symbol {
  const options = instance === DEFAULT_INSTANCE ? '...' : `{ name: '${instance}', ... }`;
  return Symbol.for(`LockInterceptor of nestjs-holdfast; @Locked needs LockModule.forRoot(${options}) in the imports of a module`);
}

/** The LockService of an instance: the class itself for the default one. */
export function locksToken(instance: string): typeof LockService | symbol {
  return instance === DEFAULT_INSTANCE ? LockService : Symbol.for(`nestjs-holdfast:LockService:${instance}`);
}

/** The store of an instance. */
export function storeToken(instance: string): symbol {
  return Symbol.for(`nestjs-holdfast:LockStore:${instance}`);
}

/** Inside every lock module: the name of its instance, and its options. */
export const INSTANCE_NAME = Symbol.for('nestjs-holdfast:instance-name');
export const MODULE_OPTIONS = Symbol.for('nestjs-holdfast:module-options');

/** Injects the LockService of a named module: `constructor(@InjectLocks('billing') readonly locks: LockService)`. */
export function InjectLocks(instance: string = DEFAULT_INSTANCE): PropertyDecorator & ParameterDecorator {
  return Inject(locksToken(instance));
}
