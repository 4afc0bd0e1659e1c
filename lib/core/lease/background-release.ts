/**
 * Releases ids in the background: leases whose release got no answer, and requests that may have been granted although their
 * outcome is unknown. A release is repeated until the store has answered, or until the lease must have ended by itself. When the store
 * forgets, what was released shortly before is released again.
 *
 * A request that got no answer may still be on its way and reach the store after its release. The store does nothing for it after
 * its `notAfter`. So only a release that was sent later than that, and was answered, is the last one.
 */
import { Backoff, type Clock } from '../port/clock.js';
import type { LockStore, ReleaseRequest } from '../port/lock-store.js';
import type { Schedule } from './schedule.js';

/**
 * When more releases than this are open, the pauses grow with their number: in an outage every call that gives up leaves one, which is
 * repeated for as long as its lease would last.
 */
const PAUSES_GROW_ABOVE = 200;

/**
 * How many of the last releases a process remembers, and for how long, in ms. Those who waited tell a store that forgot them of the leases, and a
 * replica that is promoted lacks the last milliseconds. The time is the default of maxLeaseMs, and at least that of the process.
 */
const MAX_REMEMBERED = 256;
const KEPT_MS = 60_000;

interface DoubtfulRelease extends ReleaseRequest {
  /** The local instant until which a request for this id that got no answer may still act in the store. */
  readonly lateUntil?: number | undefined;
}

/** A release that was answered, or was tried for long enough. It is of a class for the reason that StoreLease gives for its list. */
class PastRelease {
  constructor(
    readonly key: string,
    readonly id: string,
    readonly abandoned: boolean | undefined,
    readonly memory: string | undefined,
    /** The local instant (clock.now()) from which this process does not remember it. */
    readonly endsAt: number,
  ) {}
}

export class BackgroundRelease {
  private readonly pending = new Set<Promise<void>>();
  /** The last releases, the oldest first. */
  private remembered: PastRelease[] = [];
  private closed = false;
  private readonly keptMs: number;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly schedule: Schedule,
    maxLeaseMs = 0,
  ) {
    this.keptMs = Math.max(KEPT_MS, maxLeaseMs);
    store.onDoubt?.((doubt) => this.releaseForgotten(doubt === 'rolled back'));
  }

  /** Releases an id; nobody waits for the answer. Tries that fail are repeated for `endsInMs`: then the id has ended by itself. */
  release(request: DoubtfulRelease, endsInMs: number): void {
    const { key, id, abandoned } = request;
    this.keepOn(this.repeat(request, endsInMs).then(() => this.released({ key, id, abandoned, memory: this.store.memoryOf?.(key) })));
  }

  /** Notes that the store has answered the release of a lease, or that it was tried for long enough. */
  released(release: DoubtfulRelease): void {
    const { key, id, abandoned, memory, askedAt = this.clock.now(), lateUntil = -Infinity } = release;
    this.remembered.push(new PastRelease(key, id, abandoned, memory, askedAt + this.keptMs));
    if (this.remembered.length > MAX_REMEMBERED) this.remembered.shift();
    if (lateUntil !== -Infinity) this.releaseLate(release);
  }

  /**
   * Notes that an id was released. If a request for it could still act in the store when that release was sent (at `askedAt`, by
   * default now), releases it again: also when it can act no more by now, because it may have acted behind the release.
   */
  releaseLate(request: DoubtfulRelease): void {
    const { lateUntil = -Infinity, askedAt = this.clock.now() } = request;
    if (lateUntil > askedAt) this.keepOn(this.repeat(request, lateUntil - this.clock.now()));
  }

  /** Resolves when every release has been answered or given up. */
  async settled(): Promise<void> {
    await Promise.all(this.pending);
  }

  /** Ends all tries. A lease that was not released yet ends by itself. */
  close(): void {
    this.closed = true;
  }

  /**
   * Releases again what was released shortly before: a store that lost its last writes, as a replica that is promoted, still has the leases,
   * and their locks would stay taken until they end. `isRolledBack`: the store is in an earlier state, and its memory does not show it.
   */
  private releaseForgotten(isRolledBack: boolean): void {
    const { remembered } = this;
    const now = this.clock.now();
    this.remembered = [];
    for (const release of remembered) {
      if (release.endsAt <= now) continue;
      if (isRolledBack || this.store.mayHaveForgotten?.(release)) this.release(release, release.endsAt - now);
      else this.remembered.push(release);
    }
  }

  private async repeat({ key, id, abandoned, lateUntil = -Infinity }: DoubtfulRelease, forMs: number): Promise<void> {
    const { clock, store } = this;
    const until = clock.now() + forMs;
    const backoff = new Backoff();
    while (!this.closed) {
      const retryMs = backoff.nextMs() * Math.max(1, this.pending.size / PAUSES_GROW_ABOVE);
      const sentAt = clock.now();
      const memory = store.memoryOf?.(key);
      try {
        await store.release({ key, id, abandoned });
        // A store that forgot something while it was asked may have forgotten this release.
        if (sentAt > lateUntil && (!memory || memory === store.memoryOf?.(key))) break;
      } catch {
        // The outcome is still unknown. The reason is not reported here: the first failure was reported to the caller of the request.
        if (clock.now() + retryMs > until) break;
      }
      await this.schedule.within(retryMs, undefined, () => {});
    }
  }

  private keepOn(done: Promise<void>): void {
    this.pending.add(done);
    void done.then(() => this.pending.delete(done));
  }
}
