/**
 * How many requests are on their way to the store. A crowd that asks in one moment would wait for itself: each answer late,
 * each request sent again, and none ever in time. Who comes when there are many stands in line, first come, first sent.
 */

/** Enough to keep a Redis busy over a slow network, and few enough to be answered long before a command's time is over. */
const MAX_IN_FLIGHT = 2_000;

export interface Sender {
  /** Gives a lock back with the same request: others wait for it, so it does not stand in line. */
  readonly urgent: boolean;
  /** Sends the request; {@link Traffic.left} is called with the answer. False when nobody wants it any more. */
  send(now?: number): boolean;
}

export class Traffic {
  private inFlight = 0;
  private line: (Sender | undefined)[] = [];
  /** Where the line begins: taking the first off a long array moves all others. */
  private first = 0;

  enter(sender: Sender, now: number): void {
    if (this.inFlight >= MAX_IN_FLIGHT && !sender.urgent) this.line.push(sender);
    else if (sender.send(now)) this.inFlight += 1;
  }

  /** A request was answered, or its time was over. */
  left(): void {
    this.inFlight -= 1;
    while (this.inFlight < MAX_IN_FLIGHT && this.first < this.line.length) {
      const sender = this.line[this.first]!;
      this.line[this.first++] = undefined;
      if (sender.send()) this.inFlight += 1;
    }
    if (this.first === 0 || this.first < this.line.length) return;
    this.line = [];
    this.first = 0;
  }
}
