/**
 * The injection tokens of a lock module's providers. All symbols are made with `Symbol.for`, so that the ES module and the
 * CommonJS copy of this package, when one application loads both, name the same providers.
 */
import { Inject, Scope, type FactoryProvider } from '@nestjs/common';
import { INQUIRER, type ModuleRef, type ModulesContainer } from '@nestjs/core';
import { LockService } from '../lock.service.js';
import { LockUsageError } from '../core/port/errors.js';
import { show } from '../core/port/options.js';

const ONE_COPY = 'Let both import one copy (npm ls nestjs-holdfast).';

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

/** The LockService of each copy of this package that the process has loaded: every copy adds its own. */
const COPIES = Symbol.for('nestjs-holdfast:copies');
const copies: Set<typeof LockService> = ((globalThis as { [COPIES]?: Set<typeof LockService> })[COPIES] ??= new Set());
copies.add(LockService);

/**
 * Providers that tell a class which injects the LockService of another copy of this package what is wrong: Nest would only say that it cannot
 * resolve LockService. They are transient, so Nest calls one only for a class that injects it.
 */
export function servicesOfOtherCopies(): FactoryProvider<never>[] {
  const others = [...copies].filter((copy) => copy !== LockService);
  return others.map((copy) => ({
    provide: copy,
    scope: Scope.TRANSIENT,
    inject: [INQUIRER],
    useFactory: (injects: object | undefined) => {
      throw new LockUsageError(`${injects?.constructor.name ?? 'A class'} injects the LockService of another copy of nestjs-holdfast than the one whose LockModule is imported. ${ONE_COPY}`);
    },
  }));
}

/** Injects the LockService of the lock module named `instance`: `constructor(@InjectLocks('billing') readonly locks: LockService)`. */
export function InjectLocks(instance: string = DEFAULT_INSTANCE): PropertyDecorator & ParameterDecorator {
  return Inject(locksToken(instance));
}

/** The LockService of each lock module of the application with its name, unless a test has overridden it by an object of another class. */
export function* lockModules(modules: ModulesContainer): Generator<readonly [string, LockService]> {
  for (const { providers } of modules.values()) {
    const name: unknown = providers.get(INSTANCE_NAME)?.instance;
    if (typeof name !== 'string') continue;
    const locks: unknown = providers.get(locksToken(name))?.instance;
    if (locks instanceof LockService) yield [name, locks];
  }
}

// Finds the LockService of a lock module, for the board, the telemetry and the health indicator.

/**
 * The LockService of the lock module named `instance`, in whichever module of the application it is imported. `member` is what `who` needs
 * of it.
 * @throws LockUsageError when there is no lock module of that name, or a test has put an object without that member in its place
 */
export function findLocks<Asked extends Partial<LockService>>(moduleRef: ModuleRef, instance: string, who: string, member: keyof Asked & string): Asked {
  let locks: Asked;
  try {
    locks = moduleRef.get<LockService, Asked>(locksToken(instance), { strict: false });
  } catch (cause) {
    const why = isOfAnotherCopy(moduleRef, instance)
      ? `which the application imports from another copy of nestjs-holdfast: its LockService is another class. ${ONE_COPY}`
      : 'but the application imports no such module.';
    throw new LockUsageError(`${who} needs lock module '${instance}', ${why}`, { cause });
  }
  if (locks[member] !== undefined) return locks;
  throw new LockUsageError(`${who} needs a LockService, but an object without '${member}' stands in its place. Use TestLocks, or leave ${who} out.`);
}

/** The check of an option that names lock modules. */
export function instancesProblem(_name: string, instances: unknown): string | undefined {
  if (Array.isArray(instances) && instances.length > 0 && new Set(instances).size === instances.length) return undefined;
  const given = Array.isArray(instances) ? `[${instances.map(show).join(', ')}]` : show(instances);
  return `expected instances to be an array of the names of lock modules, each once and at least one, got ${given}`;
}

/**
 * True if there is a lock module of this name all the same: the token of an interceptor is the same in all copies of this package, that of
 * LockService is its class.
 */
function isOfAnotherCopy(moduleRef: ModuleRef, instance: string): boolean {
  try {
    moduleRef.get(interceptorToken(instance), { strict: false });
    return true;
  } catch {
    return false;
  }
}
