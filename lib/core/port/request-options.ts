/** The names of the options that calls and modules take, and the checks of the methods of LockService that take no lock. */
import type { LockMode } from './lock-mode.js';
import type { CallSite, LockDefaults, LockOptions, WithLockOptions } from './lock-options.js';
import type { ListOptions } from './lock-state.js';
import { checkOptions, type NamesOf, type OptionList } from './option-names.js';
import { invalidOption, oneOfProblem, show } from './option-values.js';

/** Options of {@link LockService.forceRelease}. */
export interface ForceReleaseOptions {
  /**
   * The fence of the only hold to end.
   * @default none: every hold of the lock is ended
   */
  fence?: number | undefined;
}

export const MODES: readonly LockMode[] = ['read', 'write'];

const example = '{ leaseMs: 5000 }';
/** The names of the options of every request for a lock, also by a decorator or for a route. */
export const lockOptionNames: NamesOf<LockOptions> = {
  mode: true,
  leaseMs: true,
  waitMs: true,
  renew: true,
  maxHoldMs: true,
  minHoldMs: true,
  graceMs: true,
  owner: true,
  permits: true,
  signal: true,
  minReplicas: true,
  label: true,
  profile: true,
};
/** The names of the defaults that a module sets for all calls. */
export const lockDefaultNames: NamesOf<LockDefaults> = {
  leaseMs: true,
  waitMs: true,
  renew: true,
  maxHoldMs: true,
  minHoldMs: true,
  graceMs: true,
  minReplicas: true,
  onLost: true,
  awaitRelease: true,
  maxLeaseMs: true,
  handOn: true,
  commandTimeoutMs: true,
  shutdownGraceMs: true,
  profiles: true,
};
const acquireNames: NamesOf<LockOptions & CallSite> = { ...lockOptionNames, template: true, expectsBusy: true };
const withLockNames: NamesOf<WithLockOptions & CallSite> = { ...acquireNames, onLost: true, awaitRelease: true };
const forceReleaseNames: NamesOf<ForceReleaseOptions> = { fence: true };
const listNames: NamesOf<ListOptions> = { startsWith: true };

export const ACQUIRE_OPTIONS: OptionList = { names: acquireNames, example };
export const WITH_LOCK_OPTIONS: OptionList = { names: withLockNames, example };
const FORCE_RELEASE_OPTIONS: OptionList = {
  names: forceReleaseNames,
  example: '{ fence: 7 }',
  valueProblem: ({ fence }) => fenceProblem(fence),
  advice: 'Leave it out to take the lock from all holders',
};
const LIST_OPTIONS: OptionList = {
  names: listNames,
  example: `{ startsWith: 'order:' }`,
  of: 'Options of list',
  valueProblem: ({ startsWith }) => startProblem(startsWith),
  advice: 'Leave them out to see all locks',
};

/** Checks the options of forceRelease: an invalid fence must not mean all holders. @throws LockUsageError */
export function checkForceRelease(options: ForceReleaseOptions | undefined, key: string): void {
  if (options !== undefined) checkOptions(options, FORCE_RELEASE_OPTIONS, key);
}

function fenceProblem(fence: unknown): string | undefined {
  if (fence === undefined || (Number.isSafeInteger(fence) && Number(fence) > 0)) return undefined;
  return `expected fence to be the number of a hold, got ${show(fence)}`;
}

/** Checks the options of list: an invalid filter must not mean all locks. @throws LockUsageError */
export function checkList(options: ListOptions | undefined): void {
  if (options !== undefined) checkOptions(options, LIST_OPTIONS);
}

function startProblem(startsWith: unknown): string | undefined {
  if (startsWith === undefined || typeof startsWith === 'string') return undefined;
  return `expected startsWith to be a string, got ${show(startsWith)}`;
}

/** Checks the mode of isLocked and assertLocked, because nobody ever holds a lock in a misspelt one. @throws LockUsageError */
export function checkMode(mode: LockMode | undefined, key: string): void {
  const problem = oneOfProblem('mode', mode, MODES);
  if (problem !== undefined) throw invalidOption(problem, key);
}
