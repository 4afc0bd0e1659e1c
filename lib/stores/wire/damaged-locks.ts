/**
 * Leaves damaged locks out of a list, so that the others can be listed, and reports one to the operator. A lock is damaged when
 * another program has put something else at one of its Redis keys.
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import type { Report } from '../../core/port/lock-events.js';
import { isDamage } from './store-failure.js';

/** Damaged locks are reported at most this often, in ms, because a board lists the locks about twice a second. */
const REPORTED_EVERY_MS = 10_000;

export class DamagedLocks {
  private toldAt = -Infinity;

  constructor(
    private readonly report: Report,
    private readonly clock: Clock,
  ) {}

  /** The results of `looks`, without those of damaged locks. Rejects with any other failure. */
  async without<T>(looks: readonly Promise<T>[]): Promise<T[]> {
    const found: T[] = [];
    const damaged: LockStoreError[] = [];
    for (const look of await Promise.allSettled(looks)) {
      if (look.status === 'fulfilled') found.push(look.value);
      else if (isOfOneLock(look.reason)) damaged.push(look.reason);
      else throw look.reason;
    }
    this.tell(damaged);
    return found;
  }

  private tell(damaged: readonly LockStoreError[]): void {
    const [first] = damaged;
    const now = this.clock.now();
    if (first === undefined || now - this.toldAt < REPORTED_EVERY_MS) return;
    this.toldAt = now;
    const others = damaged.length > 1 ? ` (and ${damaged.length - 1} more like it)` : '';
    this.report({ kind: 'damaged lock', level: 'error', message: `A list of locks leaves out one that is damaged${others}. ${first.message}` });
  }
}

function isOfOneLock(error: unknown): error is LockStoreError {
  return error instanceof LockStoreError && !error.retryable && isDamage(error);
}
