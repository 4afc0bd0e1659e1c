/** The permits of one lock that this process has, each as the lane that has its lease, by the id of the lease. */
import type { PermitLease } from '../lease/permit-lease.js';
import type { PermitLane } from './permit-lane.js';

export class HeldPermits {
  private readonly lanes = new Map<string, PermitLane>();
  /**
   * The earliest end of trust among all permits of the lock. It is computed anew when that instant has passed, or a permit has gone. A
   * permit that comes needs no new computation: before it came, not all were here.
   */
  private allTrustedUntil = -Infinity;

  constructor(
    /** How many permits the lock has. */
    private readonly permits: number,
  ) {}

  get size(): number {
    return this.lanes.size;
  }

  leaseOf(id: string): PermitLease | undefined {
    return this.lanes.get(id)?.lease;
  }

  add(id: string, lane: PermitLane): void {
    this.lanes.set(id, lane);
  }

  remove(id: string): void {
    this.lanes.delete(id);
    this.allTrustedUntil = -Infinity;
  }

  /** Notes that another process began to wait for a permit. */
  heardOfWaiter(): void {
    for (const { lease } of this.lanes.values()) lease?.heardOfWaiter();
  }

  /** Whether this process has all permits of the lock and trusts them, so that nobody else was granted one since its latest. */
  areAll(now: number): boolean {
    if (this.lanes.size < this.permits) return false;
    if (now >= this.allTrustedUntil) {
      this.allTrustedUntil = Infinity;
      for (const { lease } of this.lanes.values()) this.allTrustedUntil = Math.min(this.allTrustedUntil, lease!.trustedUntil);
    }
    return now < this.allTrustedUntil;
  }
}
