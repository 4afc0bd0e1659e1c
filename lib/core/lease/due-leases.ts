/**
 * The leases that are due for renewal, sorted by length. The leases of one batch wait for the same answer, so only leases that can
 * wait about equally long for it are put into one batch.
 */
import { likeLength } from '../port/like-lengths.js';
import type { GuardedLease } from './guarded-lease.js';

export class DueLeases {
  private readonly alike = new Map<number, GuardedLease[]>();

  /** Adds a lease that will be renewed to `leaseMs`. */
  add(lease: GuardedLease, leaseMs: number): void {
    const length = likeLength(leaseMs);
    const others = this.alike.get(length);
    if (others) others.push(lease);
    else this.alike.set(length, [lease]);
  }

  get isEmpty(): boolean {
    return this.alike.size === 0;
  }

  /** Whether so many leases of one length are due. */
  hasBatchOf(size: number): boolean {
    for (const leases of this.alike.values()) if (leases.length >= size) return true;
    return false;
  }

  /** Removes and returns one batch of each length, with at most `largest` leases: leases of one length do not wait for those of another. */
  take(largest: number): readonly GuardedLease[][] {
    return [...this.alike].map(([length, leases]) => {
      if (leases.length > largest) return leases.splice(0, largest);
      this.alike.delete(length);
      return leases;
    });
  }
}
