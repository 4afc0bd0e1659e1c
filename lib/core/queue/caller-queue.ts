/** A queue in which callers of this process wait for one lock, as LocalQueue sees it, and what all such queues share. */
import type { StoreLease } from '../lease/store-lease.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Caller } from './caller.js';
import type { RequestParts } from './request-parts.js';
import type { StoreRequest } from './store-request.js';

/** How many callers are admitted in a row before the event loop gets a turn, so that timers and sockets are served too. */
export const LONGEST_BURST = 64;

/** What all queues of a module share. */
export interface QueueParts extends RequestParts {
  readonly handOn: number;
  /** Called when no caller of the queue wants the lock or has it any more. */
  queueIsIdle(queue: CallerQueue): void;
}

/** Why a call for this lock is refused although it waits; undefined when it goes on waiting. */
export type ReasonToReject = (key: string, insideHold: boolean) => Error | undefined;

export interface CallerQueue {
  readonly key: string;
  /** The options that its callers share, for a queue aside from the main queue of its key (see LocalQueue); else undefined. */
  readonly sharedOptions?: ResolvedOptions | undefined;
  /** Queues the caller, or rejects it at once when its waitMs is 0 and it cannot be served now. */
  join(caller: Caller<StoreLease>, now: number): void;
  /** The lease that is held under this id. */
  leaseOf(id: string): StoreLease | undefined;
  /** The open request with this id. */
  requestOf(id: string): StoreRequest | undefined;
  /** Notes that another process began to wait for the lock. `id`: the lease to which the store told it. */
  heardOfWaiter(id: string): void;
  /** Rejects every caller that still waits and for whom there is a reason. */
  rejectWaiting(reasonFor: ReasonToReject): void;
}
