/**
 * Deadlines of questions to the nodes, with one timer for all of them. Nearly every question is answered long before its
 * deadline, and a timer for each would cost more than the answer. So the timer is not cleared: it fires, finds the deadlines
 * that are due, and is set again only while questions are unanswered.
 */
import type { Clock, Timer } from '../../core/port/clock.js';

export interface Deadline {
  /** The local instant at which the deadline is due. */
  at: number;
  /** Called once when the deadline is due. It is cancelled by then and may be set again. */
  due(): void;
}

export class Deadlines {
  private readonly open = new Set<Deadline>();
  private timer: Timer | undefined;
  private timerAt = Infinity;

  constructor(readonly clock: Clock) {}

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
    // The loop gets one turn first: this process may have been the slow one, with the replies unread in its sockets.
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
    this.wakeAt(next);
  }
}
