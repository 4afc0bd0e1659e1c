/**
 * The injection tokens of a lock module's providers. All symbols are made with `Symbol.for`, so that the ES module and the
 * CommonJS copy of this package, when one application loads both, name the same providers.
 */
import { Inject } from '@nestjs/common';
import { LockService } from '../lock.service.js';

/** The name of the lock module that was given no `name`. */
export const DEFAULT_INSTANCE = 'default';

/** The token of an instance's LockInterceptor. Nest prints its text when the boot fails because the lock module is missing. */
export function interceptorToken(instance: string): symbol {
  const options = instance === DEFAULT_INSTANCE ? '...' : `{ name: '${instance}', ... }`;
  return Symbol.for(`LockInterceptor of nestjs-holdfast; @Locked needs LockModule.forRoot(${options}) in the imports of a module, and so does @Leader`);
}

/** The token of an instance's LockService. That of the default instance is the class itself. */
export function locksToken(instance: string): typeof LockService | symbol {
  return instance === DEFAULT_INSTANCE ? LockService : Symbol.for(`nestjs-holdfast:LockService:${instance}`);
}

/** The token of an instance's store. */
export function storeToken(instance: string): symbol {
  return Symbol.for(`nestjs-holdfast:LockStore:${instance}`);
}

/** The tokens, inside every lock module, of the name of its instance and of its options. */
export const INSTANCE_NAME = Symbol.for('nestjs-holdfast:instance-name');
export const MODULE_OPTIONS = Symbol.for('nestjs-holdfast:module-options');

/** Injects the LockService of the lock module named `instance`: `constructor(@InjectLocks('billing') readonly locks: LockService)`. */
export function InjectLocks(instance: string = DEFAULT_INSTANCE): PropertyDecorator & ParameterDecorator {
  return Inject(locksToken(instance));
}
