/** What a store tells of a lock to those who look at it: who holds it, and who waits. */
import type { LockMode } from './lock-mode.js';

/** Who holds a lock. */
export interface HolderState {
  readonly id: string;
  readonly fence: number;
  readonly owner?: string | undefined;
  /** Time until the lease ends unless it is renewed, in ms. */
  readonly remainingMs: number;
  /** How long the lock stays taken after that unless it is released, in ms. Undefined when there is no grace. */
  readonly graceMs?: number | undefined;
  /** What the holder says of itself: the option `label`, or class and method of a decorator. */
  readonly label?: string | undefined;
  /** The hold was handed off, and nobody has adopted it yet: `remainingMs` counts to the end of the ticket. */
  readonly handedOff?: true | undefined;
}

/** Who waits for a lock. */
export interface WaiterState {
  readonly id: string;
  readonly mode: LockMode;
  readonly label?: string | undefined;
}

/** What the store knows of one lock. For a free key the mode is null and both lists are empty. */
export interface LockState {
  readonly key: string;
  readonly mode: LockMode | null;
  /** How many may hold the lock at a time, each with a permit, as the calls that hold it said. Undefined without permits. */
  readonly permits?: number | undefined;
  readonly holders: readonly HolderState[];
  /** The waiters in the order in which they will be served. */
  readonly waiters: readonly WaiterState[];
}

/** Options of {@link LockService.list}. */
export interface ListOptions {
  /** Lists only the locks whose key starts with this. */
  readonly startsWith?: string | undefined;
}
