/**
 * Decides for how long the permits of one lock go on among the callers of this process while other processes wait.
 *
 *     first permit comes from others ──▶ window is open; permits that come later belong to it too
 *     a permit has had its turns     ──▶ window has ended for all of them
 *
 * Permits that came together are so given away together, and the places in the store's queue that are taken in their stead stand side
 * by side: then they come together again.
 */
import { HAND_ON_WINDOW_MS } from '../lease/store-lease.js';
import type { PermitLane } from './permit-lane.js';

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

export class PermitTurns {
  /** The window of the permit that came last. */
  private window = new HandOnWindow(-Infinity);
  /** The lanes that had places in the store's queue when a window ended, until {@link takeOldPlaces}. */
  private old: PermitLane[] = [];

  /** `handOn`: how many callers of this process may have a permit in a row. */
  constructor(private readonly handOn: number) {}

  /** Notes that the permit of this lane has come from others. */
  began(lane: PermitLane, now: number): void {
    this.window = this.window.at(now);
    lane.comesFromOthers(this.window);
  }

  /** Ends the window of a lane whose permit has had all of its turns. `asking`: the lanes that ask. False when there is none to end. */
  end(lane: PermitLane, now: number, asking: Iterable<PermitLane>): boolean {
    const { handOn } = this;
    if (handOn === 1 || lane.mayHandOn(now, handOn) || !lane.window?.isOpen(now)) return false;
    lane.window.end();
    this.old = [...asking].filter(({ request }) => request!.wasRefused);
    return true;
  }

  /** The lanes that had places when the last window ended, once. */
  takeOldPlaces(): PermitLane[] {
    return this.old.splice(0);
  }
}
