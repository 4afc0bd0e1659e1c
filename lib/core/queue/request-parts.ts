/** What a request to the store is made with, and what it tells. */
import type { BackgroundRelease } from '../lease/background-release.js';
import type { Heartbeats } from '../lease/heartbeats.js';
import type { Watchdog } from '../lease/watchdog.js';
import type { Clock } from '../port/clock.js';
import type { LockStoreError } from '../port/errors.js';
import type { Grant, LockStore } from '../port/lock-store.js';
import type { Traffic } from './traffic.js';

/** What all requests of a process share. */
export interface RequestParts {
  readonly store: LockStore;
  readonly clock: Clock;
  readonly watchdog: Watchdog;
  readonly heartbeats: Heartbeats;
  readonly background: BackgroundRelease;
  readonly traffic: Traffic;
  readonly commandTimeoutMs: number;
}

export type Answer =
  /** `at`: when this process learned of it. */
  | { readonly kind: 'granted'; readonly grant: Grant; readonly at: number }
  | { readonly kind: 'busy' | 'upgrade' | 'full' }
  /** The store lost the place of the request. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly error: LockStoreError };

export interface RequestListener {
  /** Told exactly once, unless the request is cancelled first. */
  requestAnswered(answer: Answer): void;
  /** Told each time the store could not grant. */
  requestDelayed(): void;
}
