/** Whether a grant is good enough to begin with. */
import type { Grant } from '../port/lock-store.js';

/** A grant that we heard of so late would be lost if its first renewal took its time. */
const NEARLY_OVER_MS = 500;

/** `over`: its trust has ended. `short`: it has to be renewed before anybody works under it. */
export type GrantVerdict = 'good' | 'short' | 'over';

/** `isFixed`: nobody would lengthen a grant that is short at first, as those made to a waiter are. */
export function verdictOn({ trustedUntil }: Grant, now: number, leaseMs: number, isFixed: boolean): GrantVerdict {
  const leftMs = trustedUntil - now;
  if (leftMs <= 0) return 'over';
  return isFixed || leftMs < Math.min(NEARLY_OVER_MS, leaseMs / 2) ? 'short' : 'good';
}
