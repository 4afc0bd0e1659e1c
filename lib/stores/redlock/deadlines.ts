/**
 * When questions that are out have waited long enough, with one timer for all: nearly every question is answered long before,
 * and a timer of its own would cost it more than the answer. The timer that is there is left to fire, finds what is due, and
 * is set again only while something is out.
 */
import type { Clock, Timer } from '../../core/port/clock.js';

export interface Deadline {
  /** Local instant. */
  at: number;
  /** Called once when the time has come; by then it is off, and may be set again. */
  due(): void;
}

export class Deadlines {
  private readonly open = new Set<Deadline>();
  private timer: Timer | undefined;
  private timerAt = Infinity;

  constructor(private readonly clock: Clock) {}

  set(deadline: Deadline): void {
    this.open.add(deadline);
    this.wakeAt(deadline.at);
  }

  cancel(deadline: Deadline): void {
    this.open.delete(deadline);
  }

  close(): void {
    this.open.clear();
    this.stop();
  }

  private wakeAt(at: number): void {
    if (at >= this.timerAt) return;
    this.stop();
    this.timerAt = at;
    // After a turn of the event loop: what was too slow may have been this process, and the replies lie there unread.
    this.timer = this.clock.setTimer(() => this.clock.nextTurn(() => this.look()), at - this.clock.now());
  }

  private stop(): void {
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timer = undefined;
    this.timerAt = Infinity;
  }

  private look(): void {
    this.stop();
    const now = this.clock.now();
    let next = Infinity;
    for (const deadline of [...this.open]) {
      if (deadline.at > now) next = Math.min(next, deadline.at);
      else if (this.open.delete(deadline)) deadline.due();
    }
    if (next < Infinity) this.wakeAt(next);
  }
}
