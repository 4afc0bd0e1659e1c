/** What a process asks the store for on behalf of its callers, and what it may be told. */
import type { DoubtfulRelease } from '../lease/background-release.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { LockStoreError } from '../port/errors.js';
import type { AcquireRequest, Grant } from '../port/lock-store.js';

/** The id is made anew for every place in the queue. `replaces`: a lease that is given back in the same step. */
export type Want = Omit<AcquireRequest, 'id' | 'notAfter' | 'replaces'> & { readonly renew: boolean; readonly replaces: DoubtfulRelease | undefined };

export type Answer =
  /** `lateUntil`: until when a request for it that was not answered may still act. */
  | { readonly kind: 'granted'; readonly id: string; readonly grant: Grant; readonly lateUntil: number }
  | { readonly kind: 'busy' }
  | { readonly kind: 'upgrade' }
  | { readonly kind: 'failed'; readonly error: LockStoreError };

export function wantOf(key: string, options: ResolvedOptions, fences: number, replaces: DoubtfulRelease | undefined): Want {
  const { mode, leaseMs, minHoldMs, maxHoldMs, owner, label, minReplicas, renew, waitMs } = options;
  return { key, mode, leaseMs: Math.min(leaseMs, maxHoldMs), queue: waitMs > 0, fences, minHoldMs, owner, label, minReplicas, replaces, renew };
}
