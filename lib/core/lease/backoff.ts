/** Growing pauses between tries. Each is spread at random over its second half, so that requests that failed together return apart. */
export class Backoff {
  constructor(
    private pauseMs: number,
    private readonly longestMs: number,
  ) {}

  /** The pause before the next try, in ms. */
  nextMs(): number {
    const { pauseMs, longestMs } = this;
    this.pauseMs = Math.min(longestMs, 2 * pauseMs);
    return pauseMs * (0.5 + Math.random() / 2);
  }
}

/** The pauses of a request that the store did not serve. They are short, so that calls are served soon after an outage. */
export function requestPauses(): Backoff {
  return new Backoff(20, 200);
}
