/** One caller's time on a lease: what a queue gives to a caller, and what a hold is made of. */
import type { HeldLease } from '../lease/held-lease.js';
import type { ReleaseOutcome } from '../port/lease.js';
import type { LockMode } from '../port/lock-mode.js';
import type { ResolvedOptions } from '../port/lock-options.js';

export interface Turn {
  readonly lease: HeldLease;
  readonly fence: number;
  readonly options: ResolvedOptions;
  /** How the lock is held in it: inside a write hold a call may be for reading only. */
  readonly mode: LockMode;
  /** Inside another hold of this process, which keeps the lease. */
  readonly nested: boolean;
  /**
   * Ends this caller's time: hands the lease on, or gives it back to the store. Called once. A callback and not a promise,
   * here and in hold.ts: this is on the way of every call, and with async hooks in use a promise costs a microsecond.
   * `abandoned`: its work never began.
   */
  end(done: (outcome: ReleaseOutcome) => void, abandoned?: boolean): void;
  /** It is one of several locks that the caller wants: until {@link begin} it is kept, whatever the caller's terms. */
  keep(): void;
  /** All of them are there: `maxHoldMs` and the time of a fixed lease count from here. */
  begin(done: () => void): void;
  /** Only reading goes on: turns the write lease into a read lease and lets waiting readers in. */
  downgrade(): Promise<void>;
  /** The hold went on for longer than it may: nobody else is put on its lease, and it is not renewed any more. */
  expire(): void;
  /** Tells the holds around this one that a nested call came (+1) or went (-1). */
  count(change: number): void;
}
