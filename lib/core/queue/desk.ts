/** What all questions of a process to the store share. */
import type { BackgroundRelease } from '../lease/background-release.js';
import type { Clock } from '../port/clock.js';
import type { IdTable } from '../lease/id-table.js';
import type { Grant, LockStore } from '../port/lock-store.js';
import type { Traffic } from './traffic.js';
import type { Watchdog } from '../lease/watchdog.js';

export interface Desk {
  readonly store: LockStore;
  readonly clock: Clock;
  readonly watchdog: Watchdog;
  readonly background: BackgroundRelease;
  readonly traffic: Traffic;
  readonly commandTimeoutMs: number;
  /** The questions that wait, by holder id: where wakes go. */
  readonly waiting: IdTable<{ wake(grant: Grant | undefined): void }>;
  nextId(): string;
}
