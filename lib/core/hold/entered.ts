/** What a call does with the locks that it got, before a hold is made of them: it looks whether they are there still, or gives them back. */
import type { LossListener } from '../lease/lease-guard.js';
import { StoreLease } from '../lease/store-lease.js';
import type { LockMode } from '../port/lock-mode.js';
import type { Entered } from './hold-part.js';

const NOBODY: LossListener = { leaseLost: () => {} };

export function leaseOf(entered: Entered): StoreLease {
  return entered instanceof StoreLease ? entered : entered.lease;
}

/** Whether one of the locks was lost since the call got it. */
export function isLost(entered: Entered | readonly Entered[]): boolean {
  return entered instanceof Array ? entered.some((one) => one.isLost) : entered.isLost;
}

/** Gives back a lock under which no work began. `mode`: how the call wanted it. */
export function abandon(entered: Entered, mode: LockMode, now: number, done: () => void): void {
  if (entered instanceof StoreLease) return entered.leave(NOBODY, now, done, true);
  entered.leaveInside(mode);
  done();
}
