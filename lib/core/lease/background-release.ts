/**
 * Takes back what may or may not have been granted: after an unknown outcome the id is released again and again until the
 * store has answered, or until a lease has passed and it has ended by itself.
 *
 * A request that was not answered may still be on its way, behind the answer to its release. It carries the time after which
 * it does nothing: only a release that was sent later than that has taken back all there can be.
 */
import type { Clock } from '../port/clock.js';
import type { ReleaseOutcome } from '../port/lease.js';
import type { LockStore, ReleaseRequest } from '../port/lock-store.js';
import { Backoff } from './backoff.js';
import { Alarm, type Schedule } from './schedule.js';

const FIRST_RETRY_MS = 50;
/** Others wait for what is taken back. */
const LONGEST_RETRY_MS = 250;

export interface DoubtfulRelease extends ReleaseRequest {
  /** Local instant until which a request for this id that was not answered may still act. */
  readonly lateUntil?: number | undefined;
}

export class BackgroundRelease {
  private readonly pending = new Set<Promise<void>>();
  private closed = false;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly schedule: Schedule,
  ) {}

  /** Releases an id without anybody waiting for it. `endsInMs`: after that long it has ended by itself. */
  release(request: DoubtfulRelease, endsInMs: number): void {
    const done = this.repeat(request, this.clock.now() + endsInMs);
    this.pending.add(done);
    void done.then(() => this.pending.delete(done));
  }

  /** Releases a lease and tells what became of it. When that is not known, the release is repeated in the background. */
  releaseAndTell(lease: DoubtfulRelease, endsInMs: number, done: (outcome: ReleaseOutcome) => void): void {
    this.store.release(lease).then(
      (outcome) => {
        this.releaseLate(lease);
        done(outcome);
      },
      () => {
        this.release(lease, endsInMs);
        done('unknown');
      },
    );
  }

  /** It was released; what is late of it is taken back as well. */
  releaseLate(request: DoubtfulRelease): void {
    const { lateUntil = -Infinity } = request;
    if (lateUntil === -Infinity) return;
    const lateForMs = lateUntil - this.clock.now();
    if (lateForMs > 0) this.release(request, lateForMs);
  }

  /** Resolves when nothing is left to take back. */
  async settled(): Promise<void> {
    await Promise.all(this.pending);
  }

  /** No more tries; what is left ends with its lease. */
  close(): void {
    this.closed = true;
  }

  private async repeat({ key, id, abandoned, lateUntil = -Infinity }: DoubtfulRelease, until: number): Promise<void> {
    const backoff = new Backoff(FIRST_RETRY_MS, LONGEST_RETRY_MS);
    while (!this.closed) {
      const retryMs = backoff.nextMs();
      const sentAt = this.clock.now();
      try {
        await this.store.release({ key, id, abandoned });
        if (sentAt > lateUntil) return;
      } catch {
        // Still unknown. The reason was told to the caller whose request this belongs to.
        if (this.clock.now() + retryMs > until) return;
      }
      await this.pause(retryMs);
    }
  }

  private pause(forMs: number): Promise<void> {
    return new Promise((resolve) => this.schedule.set(new Alarm(() => resolve()), this.clock.now() + forMs));
  }
}
