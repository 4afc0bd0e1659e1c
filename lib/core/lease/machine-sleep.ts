/**
 * Notices that the machine slept. The monotonic clock stands still during a sleep while leases in the store go on, so it is compared
 * with the time since boot, which counts the sleep. A jump of the wall clock alone says nothing about leases, but it often comes
 * with a sleep: so it is a reason to compare the two, and to renew all leases.
 */
import type { Clock } from '../port/clock.js';

/** A smaller difference between two clocks, in ms, is neither a sleep nor a jump. */
const JUMP_MS = 1_000;
/** The time since boot may have to be read from a file. It is read this often at most, in ms, unless the wall clock has jumped. */
const LOOK_EVERY_MS = 250;

export class MachineSleep {
  private asleepMs = this.clock.uptimeMs() - this.clock.now();
  private wallOffsetMs = this.clock.wallNow() - this.clock.now();
  private lookedAt = -Infinity;
  private noticedAt = -Infinity;

  constructor(
    private readonly clock: Clock,
    /** Is called when the machine has slept or the wall clock has jumped. `sleptMs`: for how long it slept; 0 when it did not. */
    private readonly jumped: (sleptMs: number) => void,
  ) {}

  /** Compares the clocks. Returns when a sleep was noticed last: trust that is counted from an earlier instant would be too long. */
  look(now: number): number {
    const wallOffsetMs = this.clock.wallNow() - now;
    const wallJumped = Math.abs(wallOffsetMs - this.wallOffsetMs) > JUMP_MS;
    if (!wallJumped && now - this.lookedAt < LOOK_EVERY_MS) return this.noticedAt;
    this.lookedAt = now;
    const sleptMs = this.clock.uptimeMs() - now - this.asleepMs;
    const slept = sleptMs > JUMP_MS;
    if (slept) {
      this.asleepMs += sleptMs;
      this.noticedAt = now;
    }
    if (wallJumped) this.wallOffsetMs = wallOffsetMs;
    if (slept || wallJumped) this.jumped(slept ? sleptMs : 0);
    return this.noticedAt;
  }
}
