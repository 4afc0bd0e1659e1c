/**
 * The last releases that the store has answered. A store that loses its last writes, as a replica that is promoted, still has the
 * leases, and their locks would stay taken until they end: so these releases are made once more.
 */

/**
 * So many of the last releases are remembered: what a replica lacks when it is promoted are the last milliseconds, in which a process
 * releases at most some hundred locks.
 */
const MAX_REMEMBERED = 256;

interface AnsweredRelease {
  readonly key: string;
  readonly id: string;
  readonly abandoned: boolean | undefined;
  readonly memory: string | undefined;
  /** When the lease has ended by itself, also in a store that has it still, in clock.now() time. */
  readonly endsAt: number;
}

export class RememberedReleases {
  /** A ring: the next release takes the position of the oldest. */
  private ring: AnsweredRelease[] = [];
  private next = 0;

  add(release: AnsweredRelease): void {
    this.ring[this.next] = release;
    this.next = (this.next + 1) % MAX_REMEMBERED;
  }

  /** Removes those that may be forgotten, and returns them; removes also those whose lease has ended by itself. */
  take(now: number, mayBeForgotten: (release: AnsweredRelease) => boolean): AnsweredRelease[] {
    const { ring, next } = this;
    const forgotten: AnsweredRelease[] = [];
    const known: AnsweredRelease[] = [];
    // The oldest one comes first, so that the next release takes its position again.
    for (const release of [...ring.slice(next), ...ring.slice(0, next)]) {
      if (release.endsAt > now) (mayBeForgotten(release) ? forgotten : known).push(release);
    }
    this.ring = known;
    this.next = known.length % MAX_REMEMBERED;
    return forgotten;
  }
}
