/**
 * Locks of which a Redis key holds something else, which another program put there: a list leaves them out, and tells the
 * operator which they are. What is damaged in one lock is no reason to tell nothing of the others.
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import type { Report } from '../../core/port/report.js';
import { isDamage } from './store-failure.js';

/** A board looks twice a second. */
const QUIET_MS = 10_000;

export class DamagedLocks {
  private toldAt = -Infinity;

  constructor(
    private readonly report: Report,
    private readonly clock: Clock,
  ) {}

  /** What is known of locks, without those that are damaged. Rejects with any other failure. */
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
    if (first === undefined || now - this.toldAt < QUIET_MS) return;
    this.toldAt = now;
    const others = damaged.length > 1 ? ` (and ${damaged.length - 1} more like it)` : '';
    this.report({ kind: 'damaged lock', level: 'error', message: `A list of locks leaves out one that is damaged${others}. ${first.message}` });
  }
}

function isOfOneLock(error: unknown): error is LockStoreError {
  return error instanceof LockStoreError && !error.retryable && isDamage(error);
}
