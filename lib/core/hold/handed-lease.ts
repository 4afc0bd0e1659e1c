/** What is kept of a lease that goes to a ticket: this process has it no more, and yet has to see that the store learns of it. */
import type { StoreLease } from '../lease/store-lease.js';
import type { HeldLease, RenewRequest } from '../port/lock-store.js';
import type { HandedHold } from '../port/ticket-store.js';

export interface HandedLease extends HandedHold {
  /** Brings the lease back, as it was when it was handed off, to a store that forgot it. */
  readonly renewal: RenewRequest;
  /** Until when the store has the lease at least, unless it forgot it: a local instant. */
  readonly trustedUntil: number;
  /** Until when a request for it that got no answer may still act in the store: a local instant. */
  readonly lateUntil: number;
  /** How long the store may have it at most, in ms from the hand-off. */
  readonly storeLengthMs: number;
}

/** `stays`: whether other callers of this process stay on the lease. */
export function handedLeaseOf(lease: StoreLease, now: number, stays: boolean): HandedLease {
  const { key, id, mode, firstFence, fences, owner, permits, label, minHoldUntil, trustedUntil, memory, storeLengthMs, lateUntil } = lease;
  const held: HeldLease = { isHeld: true, isReleased: false, mode, firstFence, fences, owner, permits, label, minHoldUntil, trustedUntil, memory };
  const renewal = { ...lease.renewal(now, Math.floor(trustedUntil - now)), held };
  return { key, id, renewal, trustedUntil, storeLengthMs, lateUntil, stays };
}
