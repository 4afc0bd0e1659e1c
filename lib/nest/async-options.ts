/** What LockModule.forRootAsync is given: one of three ways to get the options of the module when the application starts. */
import type { LockUsageError } from '../core/port/errors.js';
import { invalidOption, type NamesOf, type OptionList, optionsProblem, shapeProblem, show } from '../core/port/options.js';
import { isModuleOption, type LockModuleOptions } from './lock-module-options.js';
import type { ASYNC_OPTIONS_TYPE } from './lock.module-definition.js';

const names: NamesOf<typeof ASYNC_OPTIONS_TYPE> = {
  imports: true,
  inject: true,
  provideInjectionTokensFrom: true,
  useFactory: true,
  useClass: true,
  useExisting: true,
  isGlobal: true,
  name: true,
};
const OPTIONS: OptionList = { names, example: '{ useFactory: () => ({ redis: process.env.REDIS_URL }) }' };
/** The ways to get the options. */
const WAYS = ['useFactory', 'useClass', 'useExisting'] as const;

/** Checks what forRootAsync was given, because Nest would fail with words about its own inside. @throws LockUsageError */
export function checkAsyncOptions(given: typeof ASYNC_OPTIONS_TYPE): void {
  const problem = shapeProblem(given, OPTIONS) ?? earlyOption(given) ?? optionsProblem(given, OPTIONS) ?? wayProblem(given);
  if (problem !== undefined) throw refused(problem);
}

/** The options that an object of useClass or useExisting creates. @throws LockUsageError when it has no such method */
export function createdBy(factory: { create?(): LockModuleOptions | Promise<LockModuleOptions> }): LockModuleOptions | Promise<LockModuleOptions> {
  if (typeof factory.create === 'function') return factory.create();
  throw refused(`${factory.constructor.name} has no method create(), which gives the options of the module`);
}

/** An option of the module that stands where the factory should stand, or beside it. */
function earlyOption(given: object): string | undefined {
  const early = Object.keys(given).find((name) => isModuleOption(name));
  return early && `'${early}' is an option that useFactory gives; options that are known already are given to forRoot`;
}

function wayProblem(given: typeof ASYNC_OPTIONS_TYPE): string | undefined {
  const ways = WAYS.filter((name) => given[name] !== undefined);
  const [way, another] = ways;
  if (way === undefined || another !== undefined) return `expected one of useFactory, useClass and useExisting, got ${ways.join(' and ') || 'none'}`;
  if (way === 'useExisting' || typeof given[way] === 'function') return undefined;
  return `expected ${way} to be a function, got ${show(given[way])}`;
}

function refused(problem: string): LockUsageError {
  return invalidOption(problem, undefined, 'LockModule.forRootAsync');
}
