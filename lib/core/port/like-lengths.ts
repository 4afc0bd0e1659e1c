/**
 * Which leases may wait for one answer. A batch of renewals is waited for no longer than the shortest of its leases allows:
 * a short lease that rode along with long ones would have them give up an answer that comes in good time for them.
 */

/** Leases with the same number are alike: none of them is twice as long as another. */
export function likeLength(leaseMs: number): number {
  return Math.floor(Math.log2(Math.max(1, leaseMs)));
}
