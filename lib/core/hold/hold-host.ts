/** What a hold needs of its surroundings, and what it tells them. */
import type { Watchdog } from '../lease/watchdog.js';
import type { Clock } from '../port/clock.js';
import type { LockLostError } from '../port/errors.js';
import type { ReleaseOutcome } from '../port/lease.js';
import type { ResolvedDefaults } from '../port/lock-options.js';
import type { LockStore } from '../port/lock-store.js';
import type { HandOffOptions } from '../port/ticket-options.js';
import type { HoldContext } from './hold-context.js';
import type { Hold } from './hold.js';

/** What all holds of a LockService share. */
export interface HoldHost {
  readonly store: LockStore;
  readonly clock: Clock;
  readonly watchdog: Watchdog;
  readonly context: HoldContext;
  readonly defaults: ResolvedDefaults;
  lost(hold: Hold, error: LockLostError): void;
  ended(hold: Hold, outcome: ReleaseOutcome): void;
  handOff(hold: Hold, options: HandOffOptions | undefined): Promise<string>;
}
