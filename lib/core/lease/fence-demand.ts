/**
 * Decides how many fences to reserve with the next lease of a lock: one for each caller that is likely to follow on it, judged by
 * how the last lease of the lock was used.
 *
 * Fences come from the store's clock, in microseconds, and reserved ones that nobody uses must not run ahead of it. So a lease gets
 * a large block only when the lease before used up its own: each of its fences was a turn, and a turn takes more than a microsecond.
 */
import type { ResolvedOptions } from '../port/lock-options.js';
import type { StoreLease } from './store-lease.js';

const FIRST_BLOCK = 256;
const LARGEST_BLOCK = 4096;

export class FenceDemand {
  /** Whether other processes waited for the lock when its last lease ended. */
  private wasContended = true;
  /** How many fences the last lease had if all of them were used, else 0. */
  private usedUp = 0;

  constructor(private readonly handOn: number) {}

  /** The number for a lease that is asked for with these options, while `callers` callers of this process wait for the lock. */
  of({ mode, minHoldMs }: ResolvedOptions, callers: number): number {
    if (mode === 'read' || minHoldMs > 0 || callers === 1 || this.handOn === 1) return 1;
    if (this.wasContended) return Math.min(FIRST_BLOCK, Math.max(callers, this.handOn));
    return Math.min(LARGEST_BLOCK, Math.max(FIRST_BLOCK, 4 * this.usedUp));
  }

  /** Learns from a lease of the lock that has ended. */
  ended({ contended, usedUpFences }: StoreLease): void {
    this.wasContended = contended;
    this.usedUp = usedUpFences;
  }
}
