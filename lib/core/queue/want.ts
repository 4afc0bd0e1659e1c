/** What a process asks the store for on behalf of its callers. */
import type { ResolvedOptions } from '../port/lock-options.js';
import type { AcquireRequest } from '../port/lock-store.js';

/** The id is made anew for every place in the queue. */
export type Want = Omit<AcquireRequest, 'id' | 'notAfter'> & { readonly renew: boolean };

/** `replaces` is the id of a lease that is given back in the same step. */
export function wantOf(key: string, options: ResolvedOptions, fences: number, replaces: string | undefined): Want {
  const { mode, leaseMs, minHoldMs, maxHoldMs, owner, label, minReplicas, renew, waitMs } = options;
  return { key, mode, leaseMs: Math.min(leaseMs, maxHoldMs), queue: waitMs > 0, fences, minHoldMs, owner, label, minReplicas, replaces, renew };
}
