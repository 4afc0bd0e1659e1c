/**
 * For how long the waiters on the board have been seen to wait. The store does not know when a request came, so the time counts from
 * the first look that showed it.
 */
import type { Clock } from '../core/port/clock.js';

export class SeenWaiters {
  /** When each waiter was seen first, in clock.now() time, by its id. An entry goes when a look does not show the waiter any more. */
  private first = new Map<string, number>();

  constructor(private readonly clock: Clock) {}

  /** Notes whom a look has shown, and forgets the others. */
  look(ids: Iterable<string>): void {
    const now = this.clock.now();
    const seen = new Map<string, number>();
    for (const id of ids) seen.set(id, this.first.get(id) ?? now);
    this.first = seen;
  }

  /** How long ago the waiter was seen first, in ms; 0 for one that no look has shown. */
  forMs(id: string): number {
    const now = this.clock.now();
    return now - (this.first.get(id) ?? now);
  }
}
