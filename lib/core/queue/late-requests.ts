/**
 * Requests that were sent and not answered: what became of one is not known, and it may still lie somewhere on its way. The
 * store does nothing for it after its `notAfter`.
 */
export class LateRequests {
  /** Until then one of them may act; -Infinity when all were answered. */
  unansweredUntil = -Infinity;
  private outUntil = -Infinity;

  /** The same, with the one that is out and may still be answered. */
  get until(): number {
    return Math.max(this.unansweredUntil, this.outUntil);
  }

  /** One is sent, and nobody else before it is answered or given up. */
  sent(notAfter: number): number {
    return (this.outUntil = notAfter);
  }

  answered(inTime: boolean): void {
    if (!inTime) this.unansweredUntil = this.outUntil;
    this.outUntil = -Infinity;
  }
}
