/**
 * When leases are renewed next. Where only locks of one group can share a command (a Cluster), the leases of a group drift
 * together: one whose time is near joins the time at which others are due.
 */
import { likeLength } from '../port/like-lengths.js';
import type { GuardedLease } from './guarded-lease.js';

/** More than there are lengths. */
const LENGTHS = 64;

export class RenewalTimes {
  /** When leases of a group and of like length are due next; one entry for each of these at the most. */
  private readonly known = new Map<number, number>();

  constructor(private readonly groupOf: (key: string) => number) {}

  /** The instant in `inMs`, or the one before it at which its group is due, but no sooner than half of that. */
  next({ key, lengthMs }: GuardedLease, now: number, inMs: number): number {
    const group = this.groupOf(key) * LENGTHS + likeLength(lengthMs);
    const known = this.known.get(group) ?? Infinity;
    const at = known >= now + inMs / 2 && known <= now + inMs ? known : now + inMs;
    this.known.set(group, at);
    return at;
  }
}
