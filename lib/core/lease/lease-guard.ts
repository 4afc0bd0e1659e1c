/** What a lease needs to be made, who looks after it, and whom it tells of its loss. */
import type { LockLostError } from '../port/errors.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { HolderRef } from '../port/lock-store.js';
import type { GuardedLease } from './guarded-lease.js';

/** The request that brought a lease. */
export interface GrantedRequest extends HolderRef {
  /** The options of the caller for which the store was asked. */
  readonly options: ResolvedOptions;
  /** The local instant until which a try of it that got no answer may still act in the store. */
  readonly lateUntil: number;
  /** The holder id of the ticket that was adopted to get the lease; undefined for a request that was granted. */
  readonly ticketId?: string | undefined;
}

/** Called once when a lease is lost. */
export interface LossListener {
  leaseLost(error: LockLostError, lease: GuardedLease): void;
}

/** Renews leases and declares them lost in time: the watchdog. */
export interface LeaseGuard {
  /** The appointment of the lease is due: it is time to renew it, or its trust has ended. */
  due(lease: GuardedLease, now: number): void;
  /** Guards the lease from now on, or plans its next renewal anew. */
  watch(lease: GuardedLease, now: number): void;
  /** Guards the lease no longer. */
  forget(lease: GuardedLease): void;
}
