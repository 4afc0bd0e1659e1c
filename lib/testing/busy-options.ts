/** The options of TestLocks.busy, and how they are checked. */
import type { LockMode } from '../core/port/lock-options.js';
import { checkOptions, isMode, LONGEST_MS, type NamesOf, type OptionList, whole } from '../core/port/options.js';

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

const names: NamesOf<BusyOptions> = { mode: isMode, forMs: whole(0, LONGEST_MS) };
const OPTIONS: OptionList = { names, example: '{ forMs: 5000 }' };

/** The options with their defaults. @throws LockUsageError when they are not valid */
export function busyOptions(options: BusyOptions, key: string): { readonly mode: LockMode; readonly forMs: number } {
  checkOptions(options, { ...OPTIONS, of: `TestLocks.busy('${key}')` }, key);
  const { mode = 'write', forMs = LONGEST_MS } = options;
  return { mode, forMs };
}
