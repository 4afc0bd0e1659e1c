/**
 * The options of the board and their defaults. Nothing else validates them.
 */
import type { CanActivate, ModuleMetadata, Type } from '@nestjs/common';
import { checkOptions, expecting, flag, invalidOption, type NamesOf, type OptionList } from '../core/port/options.js';
import { DEFAULT_INSTANCE, instancesProblem } from '../nest/lock-names.js';

/** Options of LockBoardModule.forRoot. */
export interface LockBoardOptions {
  /**
   * The path of the page, below the global prefix of the application if it has one.
   * @default '/locks'
   */
  path?: string | undefined;
  /**
   * The guards of Nest, classes or objects, that decide about every request to the board. They are required when NODE_ENV is
   * production; elsewhere a board without guards is open to everybody, and a line in the log says so.
   * @default []
   */
  guards?: readonly (Type<CanActivate> | CanActivate)[] | undefined;
  /**
   * Whether the page can take a lock away from its holder. With false there is no route for it.
   * @default false
   */
  forceRelease?: boolean | undefined;
  /**
   * The names of the lock modules to show; 'default' is the one without a name. If one of them has a `route`, do not name the
   * modules to which it leads as well: their locks would be shown twice.
   * @default ['default']
   */
  instances?: readonly string[] | undefined;
  /**
   * The modules whose providers the guards inject.
   * @default []
   */
  imports?: ModuleMetadata['imports'];
}

export interface ResolvedBoardOptions {
  readonly path: string;
  readonly guards: readonly (Type<CanActivate> | CanActivate)[];
  readonly forceRelease: boolean;
  readonly instances: readonly string[];
}

const names: NamesOf<LockBoardOptions> = {
  path: expecting("a text such as '/locks'", (path) => typeof path === 'string'),
  guards: expecting('an array', Array.isArray),
  forceRelease: flag,
  instances: instancesProblem,
  imports: true,
};
const OF = 'LockBoardModule options';
const OPTIONS: OptionList = { names, example: '{ guards: [OperatorGuard] }', of: OF };

/** Completes and validates the options. @throws LockUsageError */
export function resolveBoardOptions(given: LockBoardOptions): ResolvedBoardOptions {
  checkOptions(given, OPTIONS);
  const { path = '/locks', guards = [], forceRelease = false, instances = [DEFAULT_INSTANCE] } = given;
  return { path, guards, forceRelease, instances };
}

/** Refuses a board without guards in production, because it would show the locks of a live system to everybody. @throws LockUsageError */
export function assertGuarded({ guards, path }: ResolvedBoardOptions, environment: string | undefined): void {
  if (guards.length > 0 || environment !== 'production') return;
  throw invalidOption(
    `the board at '${path}' has no guards, and NODE_ENV is production. Give guards: [...] that let operators in and nobody else, or leave the module out`,
    undefined,
    OF,
  );
}
