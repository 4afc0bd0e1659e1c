/** A lease that a request gives back in the same step as it asks for the lock: one command for both. */
import type { BackgroundRelease, DoubtfulRelease } from '../lease/background-release.js';
import type { ReleaseOutcome } from '../port/lease.js';

export class ReplacedLease {
  constructor(
    private readonly lease: DoubtfulRelease,
    /** Told once what became of the lease. */
    private done: ((outcome: ReleaseOutcome) => void) | undefined,
  ) {}

  get id(): string {
    return this.lease.id;
  }

  /** The first answer to the request, or its failure, tells the holder; later tries release the lease again and tell nobody. */
  tell(outcome: ReleaseOutcome): void {
    const { done } = this;
    this.done = undefined;
    done?.(outcome);
  }

  /** The store has released the lease: only a request for it that is still on its way is left to take back. */
  released(background: BackgroundRelease): void {
    background.releaseLate(this.lease);
  }

  /** Nobody repeats the request: the lease is released without it. */
  giveBack(background: BackgroundRelease, endsInMs: number): void {
    background.release(this.lease, endsInMs);
  }
}
