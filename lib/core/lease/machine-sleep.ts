/**
 * Notices that the machine slept. The monotonic clock stands still meanwhile, and leases in the store do not: so the time
 * since boot, which counts the sleep, is compared with it. A jump of the wall clock alone says nothing about leases, but it
 * often comes with a sleep, so it is a reason to look, and to renew everything.
 */
import type { Clock } from '../port/clock.js';

/** A difference below this is no sleep and no jump. */
const JUMP_MS = 1_000;
/** The time since boot is read from a file: not more often than this, unless the wall clock shows a jump. */
const LOOK_EVERY_MS = 250;

export interface SleepListener {
  slept(forMs: number, now: number): void;
  wallClockJumped(): void;
}

export class MachineSleep {
  private asleepMs: number;
  private wallOffsetMs: number;
  private lookedAt = -Infinity;
  private noticedAt = -Infinity;

  constructor(
    private readonly clock: Clock,
    private readonly listener: SleepListener,
  ) {
    const now = clock.now();
    this.asleepMs = clock.uptimeMs() - now;
    this.wallOffsetMs = clock.wallNow() - now;
  }

  look(now: number): void {
    const wallOffsetMs = this.clock.wallNow() - now;
    const wallJumped = Math.abs(wallOffsetMs - this.wallOffsetMs) > JUMP_MS;
    if (!wallJumped && now - this.lookedAt < LOOK_EVERY_MS) return;
    this.lookedAt = now;
    const asleepMs = this.clock.uptimeMs() - now;
    const sleptMs = asleepMs - this.asleepMs;
    if (sleptMs > JUMP_MS) {
      this.asleepMs = asleepMs;
      this.noticedAt = now;
      this.listener.slept(sleptMs, now);
    }
    if (!wallJumped) return;
    this.wallOffsetMs = wallOffsetMs;
    this.listener.wallClockJumped();
  }

  /** Whether the machine slept after this instant: a trust that was counted from it is too long. */
  happenedSince(instant: number, now: number): boolean {
    this.look(now);
    return this.noticedAt > instant;
  }
}
