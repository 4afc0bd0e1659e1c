/** What a StoreRequest needs of its surroundings, and the answers that it gives to its queue. */
import type { BackgroundRelease } from '../lease/background-release.js';
import type { Heartbeats } from '../lease/heartbeats.js';
import type { Watchdog } from '../lease/watchdog.js';
import type { Clock } from '../port/clock.js';
import type { LockStoreError } from '../port/errors.js';
import type { AcquireAnswer, Grant, LockStore } from '../port/lock-store.js';
import type { Traffic } from './traffic.js';

/** What all requests of a module share. */
export interface RequestParts {
  readonly store: LockStore;
  readonly clock: Clock;
  readonly watchdog: Watchdog;
  readonly heartbeats: Heartbeats;
  readonly background: BackgroundRelease;
  readonly traffic: Traffic;
  readonly commandTimeoutMs: number;
  /** A holder id that was never used before. */
  nextId(): string;
}

export type Answer =
  /** `at`: when this process learned of the grant. */
  | { readonly kind: 'granted'; readonly grant: Grant; readonly at: number }
  | Extract<AcquireAnswer, { kind: 'busy' | 'upgrade' | 'full' | 'permits' }>
  /** The store no longer has the request's place in the queue. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly error: LockStoreError };

export interface RequestListener {
  /** Called exactly once, unless the request is cancelled first. */
  requestAnswered(answer: Answer): void;
  /** Called each time the store did not grant the lock, or did not respond. */
  requestDelayed(): void;
}
