/**
 * The leases that are to be renewed now, apart by their lengths: a lease shares the fate of its batch, so it goes only with
 * those that can wait for an answer as long as it can.
 */
import { likeLength } from '../port/like-lengths.js';
import type { GuardedLease } from './guarded-lease.js';

export class DueLeases {
  private readonly alike = new Map<number, GuardedLease[]>();

  /** `leaseMs`: what it will be renewed to. */
  add(lease: GuardedLease, leaseMs: number): void {
    const length = likeLength(leaseMs);
    const others = this.alike.get(length);
    if (others) others.push(lease);
    else this.alike.set(length, [lease]);
  }

  get any(): boolean {
    return this.alike.size > 0;
  }

  /** Whether so many of one length are there. */
  fill(batch: number): boolean {
    for (const leases of this.alike.values()) if (leases.length >= batch) return true;
    return false;
  }

  /** Takes a batch of each length, of `largest` leases at most: those of one length do not wait for a crowd of another. */
  take(largest: number): readonly GuardedLease[][] {
    return [...this.alike].map(([length, leases]) => {
      if (leases.length > largest) return leases.splice(0, largest);
      this.alike.delete(length);
      return leases;
    });
  }
}
