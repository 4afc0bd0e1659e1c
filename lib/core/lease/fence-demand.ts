/**
 * How many fences the next lease of a lock should have, by what the last one was like: as many as turns are likely to
 * follow each other on it.
 *
 * Fences that nobody uses must not run ahead of the clock that they come from, which counts microseconds. So a lease gets
 * many only when the one before used up all of its own, and no turn is shorter than a microsecond.
 */
import type { ResolvedOptions } from '../port/lock-options.js';
import type { StoreLease } from './store-lease.js';

const FIRST_BLOCK = 256;
const LARGEST_BLOCK = 4096;

export class FenceDemand {
  /** Others waited for the last lease. */
  private wasContended = true;
  /** How many fences the last lease had, when all of them were used. */
  private usedUp = 0;

  constructor(private readonly handOn: number) {}

  /** For a lease that is asked for with these options, when so many callers wait for it here. */
  of({ mode, minHoldMs }: ResolvedOptions, callers: number): number {
    if (mode === 'read' || minHoldMs > 0 || callers === 1 || this.handOn === 1) return 1;
    if (this.wasContended) return Math.min(FIRST_BLOCK, Math.max(callers, this.handOn));
    return Math.min(LARGEST_BLOCK, Math.max(FIRST_BLOCK, 4 * this.usedUp));
  }

  ended({ contended, usedUpFences }: StoreLease): void {
    this.wasContended = contended;
    this.usedUp = usedUpFences;
  }
}
