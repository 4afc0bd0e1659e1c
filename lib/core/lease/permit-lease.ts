/**
 * A lease on one of the permits of a lock, and the fences of the callers that follow each other on such leases.
 *
 * Fences rise with every hold of the lock, whichever permit it has. So a turn that follows on another one takes the next of the
 * fences that were reserved last, with whichever permit; and only while this process has all permits, because then no other
 * process was granted a fence since.
 */
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant } from '../port/lock-store.js';
import type { GrantedRequest, LeaseGuard } from './lease-guard.js';
import { StoreLease, type LeaseKeeper } from './store-lease.js';

/** The fences that were reserved with the latest permit of this process, for the turns on all of its permits. */
export class LatestFences {
  private next = 0;
  private end = 0;

  get areLeft(): boolean {
    return this.next < this.end;
  }

  /** Notes a grant, whose first fence is that of its first turn. An answer that was overtaken by a later one changes nothing. */
  granted({ fence, fences }: Grant): void {
    if (fence < this.end) return;
    this.next = fence + 1;
    this.end = fence + fences;
  }

  take(): number {
    return this.next++;
  }
}

export class PermitLease extends StoreLease {
  constructor(
    request: GrantedRequest,
    grant: Grant,
    grantedAt: number,
    keeper: LeaseKeeper,
    guard: LeaseGuard,
    private readonly latest: LatestFences,
  ) {
    super(request, grant, grantedAt, keeper, guard, Infinity);
    latest.granted(grant);
  }

  override admit(options: ResolvedOptions, now: number): void {
    super.admit(options, now);
    if (this.turns > 1) this.fence = this.latest.take();
  }

  protected override get hasFences(): boolean {
    return this.latest.areLeft;
  }
}
