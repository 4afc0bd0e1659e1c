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
