/** Notices that a node of a Cluster owes answers and says nothing: the connection to it is given up then, and the others serve on. */
import type { Clock, Timer } from '../../../core/port/clock.js';

export class Silence {
  private owed = 0;
  private since = 0;
  private timer: Timer | undefined;

  constructor(
    private readonly clock: Clock,
    /** The connection is given up after a silence of this length, in ms. */
    private readonly patienceMs: number,
    private readonly giveUp: () => void,
  ) {}

  asked(): void {
    if (this.owed++ === 0) this.since = this.clock.now();
    if (this.timer === undefined) this.look(this.patienceMs);
  }

  readonly heard = (): void => {
    if (this.owed > 0) this.owed -= 1;
    this.since = this.clock.now();
  };

  /** The connection has ended: it owes nothing any more. */
  reset(): void {
    this.owed = 0;
  }

  close(): void {
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timer = undefined;
  }

  /** The look comes one turn after the timer, so that replies which came while this process was busy are read first. */
  private look(afterMs: number): void {
    this.timer = this.clock.setTimer(() => this.clock.nextTurn(() => this.judge()), afterMs);
  }

  private judge(): void {
    this.timer = undefined;
    if (this.owed === 0) return;
    const leftMs = this.since + this.patienceMs - this.clock.now();
    if (leftMs > 0) this.look(leftMs);
    else this.giveUp();
  }
}
