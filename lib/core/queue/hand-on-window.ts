/**
 * The time in which permits of one lock are handed on among the callers of this process while others wait. It begins with a permit that
 * comes from others. Those that come later end it together with the first, so that the places in the store's queue which are taken
 * in their stead stand together.
 */
import { HAND_ON_WINDOW_MS } from '../lease/store-lease.js';

export class HandOnWindow {
  private hasEnded = false;

  constructor(private readonly since: number) {}

  isOpen(now: number): boolean {
    return !this.hasEnded && now - this.since < HAND_ON_WINDOW_MS;
  }

  /** The window of a permit that comes from others now. */
  at(now: number): HandOnWindow {
    return this.isOpen(now) ? this : new HandOnWindow(now);
  }

  end(): void {
    this.hasEnded = true;
  }
}
