/** The options of TestLocks.busy, and how they are checked. */
import { LockUsageError } from '../core/port/errors.js';
import type { LockMode } from '../core/port/lock-mode.js';
import { optionsProblem, type NamesOf, type OptionList } from '../core/port/option-names.js';
import { checkMode } from '../core/port/request-options.js';
import { LONGEST_MS } from '../core/port/resolve-options.js';
import { checkMs } from './test-clock.js';

/** How {@link TestLocks.busy} holds a lock. */
export interface BusyOptions {
  /**
   * The mode in which the lock is held.
   * @default 'write'
   */
  mode?: LockMode | undefined;
  /**
   * How long the lock is busy, in ms on the clock of the locks. A call that waits for longer gets the lock then.
   * @default until it is freed
   */
  forMs?: number | undefined;
}

const names: NamesOf<BusyOptions> = { mode: true, forMs: true };
const OPTIONS: OptionList = { names, example: '{ forMs: 5000 }' };

/** The options with their defaults. @throws LockUsageError when they are not valid */
export function busyOptions(options: BusyOptions, key: string): { readonly mode: LockMode; readonly forMs: number } {
  const problem = optionsProblem(options, OPTIONS);
  if (problem !== undefined) throw new LockUsageError(`TestLocks.busy('${key}'): ${problem}.`, { key });
  const { mode = 'write', forMs = LONGEST_MS } = options;
  checkMode(mode, key);
  checkMs('forMs', forMs);
  return { mode, forMs };
}
