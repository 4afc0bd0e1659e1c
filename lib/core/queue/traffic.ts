/**
 * Bounds how many requests to the store are in flight. If a crowd of requests were sent in one moment, each answer would be late,
 * each request would be sent again, and none would be answered in time. So further requests wait in a line, first come, first sent.
 */

/** Enough requests to keep a Redis busy over a slow network, and few enough to be answered long before commandTimeoutMs is over. */
export const MAX_IN_FLIGHT = 2_000;
/**
 * As many as one command takes. In a Cluster each slot group has a line of its own, because a master that does not answer must hold up
 * no request to the others; all groups together have as many in flight as one Redis.
 */
export const MAX_IN_FLIGHT_OF_A_GROUP = 8;

export interface OutgoingRequest {
  /** Whether the request also gives a lock back: it is sent at once, because others wait for that lock. */
  readonly urgent: boolean;
  /** Sends the request, and calls {@link Traffic.left} with its answer. False when no caller wants it any more, and nothing was sent. */
  send(now?: number): boolean;
}

export class Traffic {
  private inFlight = 0;
  private line: (OutgoingRequest | undefined)[] = [];
  /** The index of the first request in the line. Removing the first element of a long array would move all others. */
  private first = 0;

  constructor(private readonly most: number) {}

  /** Sends the request now, or once others have been answered. */
  join(request: OutgoingRequest, now: number): void {
    if (this.inFlight >= this.most && !request.urgent) this.line.push(request);
    else if (request.send(now)) this.inFlight += 1;
  }

  /** Called when a request was answered or has failed: the next in the line are sent. */
  left(): void {
    this.inFlight -= 1;
    while (this.inFlight < this.most && this.first < this.line.length) {
      const request = this.line[this.first]!;
      this.line[this.first++] = undefined;
      if (request.send()) this.inFlight += 1;
    }
    if (this.first === 0 || this.first < this.line.length) return;
    this.line = [];
    this.first = 0;
  }
}
