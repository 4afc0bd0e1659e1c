/**
 * Plans when leases are renewed next. Where only locks of one group can share a command (in a Cluster), a lease whose time is
 * near is planned for the time at which others of its group are due, so that over time a group is renewed together.
 */
import { likeLength } from '../port/like-lengths.js';
import type { GuardedLease } from './guarded-lease.js';

/** A number above every result of likeLength, to make one number of a group and a length. */
const LENGTHS_IN_A_GROUP = 64;

export class RenewalTimes {
  /** When leases of one group and of like length are due next. There is at most one entry for each group and length. */
  private readonly known = new Map<number, number>();

  constructor(private readonly groupOf: (key: string) => number) {}

  /** When to renew the lease: in `inMs`, or up to half of that sooner if its group is due then. */
  next({ key, lengthMs }: GuardedLease, now: number, inMs: number): number {
    const group = this.groupOf(key) * LENGTHS_IN_A_GROUP + likeLength(lengthMs);
    const known = this.known.get(group) ?? Infinity;
    const at = known >= now + inMs / 2 && known <= now + inMs ? known : now + inMs;
    this.known.set(group, at);
    return at;
  }
}
