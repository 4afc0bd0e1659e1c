/** The nightly draw: the clock strikes on every instance, and only one of them may draw. */
import { randomInt } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { Locked } from 'nestjs-holdfast';

/** Nightly would be '0 3 * * *'; every three seconds is a night that one can watch. */
const NIGHT_MS = 3_000;
const EVERY_NIGHT = '*/3 * * * * *';
/** More than the clocks of the instances differ and a busy machine is late, less than the time between two draws. */
const CLOCKS_DIFFER_MS = 2_000;
/** The clock of this instance may strike so long before the hour. */
const EARLY_MS = 500;
const REMEMBERED = 20;

export interface Draw {
  /** For which night, in ms since 1970. */
  readonly night: number;
  readonly winner: number;
  /** The process that drew. */
  readonly drawnBy: number;
}

@Injectable()
export class DrawService {
  private readonly draws: Draw[] = [];

  /**
   * Instances that find the lock taken skip this night. The lock stays taken for a while after the draw, so that an
   * instance whose clock is late finds it taken too.
   */
  @Cron(EVERY_NIGHT)
  @Locked('nightly-draw', { onBusy: 'skip', minHoldMs: CLOCKS_DIFFER_MS })
  async draw(): Promise<void> {
    const night = Math.floor((Date.now() + EARLY_MS) / NIGHT_MS) * NIGHT_MS;
    this.draws.push({ night, winner: randomInt(1, 1000), drawnBy: process.pid });
    this.draws.splice(0, this.draws.length - REMEMBERED);
  }

  /** The latest draws that this instance made. */
  made(): readonly Draw[] {
    return this.draws;
  }
}
