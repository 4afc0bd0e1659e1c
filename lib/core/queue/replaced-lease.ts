/** A lease that this process gives back with its next request for the same lock: the store does both in one command. */
import type { BackgroundRelease, EndingLease } from '../lease/background-release.js';
import type { ReleaseEnded, ReleaseOutcome } from '../port/lease.js';

export class ReplacedLease {
  constructor(
    private readonly lease: EndingLease,
    /** Called once with how the release of the lease ended. */
    private done: ReleaseEnded | undefined,
    /** Whether its permit goes on to the next request, before those who wait. */
    readonly handsOn = false,
  ) {}

  get id(): string {
    return this.lease.id;
  }

  /** Tells the holder how the release ended, by the request's first answer or failure. Later tries release again and tell nobody. */
  tell(outcome: ReleaseOutcome): void {
    const { done } = this;
    this.done = undefined;
    done?.(outcome);
  }

  /** Called when the store has released the lease. */
  released(background: BackgroundRelease): void {
    background.released(this.lease);
  }

  /** Releases the lease by itself, because the request that should do it is not sent again. */
  giveBack(background: BackgroundRelease, endsInMs: number): void {
    background.release(this.lease, endsInMs);
  }
}
