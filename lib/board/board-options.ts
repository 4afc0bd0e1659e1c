/**
 * The options of the board and their defaults. Nothing else validates them.
 */
import type { CanActivate, ModuleMetadata, Type } from '@nestjs/common';
import { LockUsageError } from '../core/port/errors.js';
import { optionsProblem, type NamesOf } from '../core/port/option-names.js';
import { DEFAULT_INSTANCE } from '../nest/lock-names.js';

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

const NAMES: NamesOf<LockBoardOptions> = { path: true, guards: true, forceRelease: true, instances: true, imports: true };

/** Completes and validates the options. @throws LockUsageError */
export function resolveBoardOptions(given: LockBoardOptions): ResolvedBoardOptions {
  const problem = optionsProblem(given, { names: NAMES, example: '{ guards: [OperatorGuard] }' });
  if (problem !== undefined) throw refused(problem);
  const { path = '/locks', guards = [], forceRelease = false, instances = [DEFAULT_INSTANCE] } = given;
  if (typeof path !== 'string') throw refused(`expected path to be a text, got ${String(path)}`);
  if (!Array.isArray(guards)) throw refused('expected guards to be an array');
  if (typeof forceRelease !== 'boolean') throw refused(`expected forceRelease to be true or false, got ${String(forceRelease)}`);
  if (!Array.isArray(instances) || instances.length === 0 || new Set(instances).size < instances.length) {
    throw refused('expected instances to be names of lock modules, each once and at least one');
  }
  return { path, guards, forceRelease, instances };
}

/** Refuses a board without guards in production, because it would show the locks of a live system to everybody. @throws LockUsageError */
export function assertGuarded({ guards, path }: ResolvedBoardOptions, environment: string | undefined): void {
  if (guards.length > 0 || environment !== 'production') return;
  throw refused(
    `the board at '${path}' has no guards, and NODE_ENV is production. Give guards: [...] that let operators in and nobody else, or leave the module out`,
  );
}

function refused(problem: string): LockUsageError {
  return new LockUsageError(`LockBoardModule options: ${problem}.`);
}
