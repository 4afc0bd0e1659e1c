/** What a call does with the locks that it got, before a hold is made of them: it looks whether they are there still, or gives them back. */
import type { LossListener } from '../lease/lease-guard.js';
import { StoreLease } from '../lease/store-lease.js';
import type { LockMode } from '../port/lock-mode.js';
import type { Taken } from './hold-part.js';

const NOBODY: LossListener = { leaseLost: () => {} };

export function leaseOf(taken: Taken): StoreLease {
  return taken instanceof StoreLease ? taken : taken.lease;
}

/** Whether one of the locks was lost since the call got it. */
export function isLost(taken: Taken | readonly Taken[]): boolean {
  return taken instanceof Array ? taken.some((one) => one.isLost) : taken.isLost;
}

/** Gives back a lock under which no work began. `mode`: how the call wanted it. */
export function abandon(taken: Taken, mode: LockMode, now: number, done: () => void): void {
  if (taken instanceof StoreLease) return taken.leave(NOBODY, now, done, true);
  taken.leaveInside(mode);
  done();
}
