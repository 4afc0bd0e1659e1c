/** The first and the longest pause between tries, in ms. They are short, because others may wait, and calls are to be served soon after an outage. */
const FIRST_MS = 20;
const LONGEST_MS = 200;

/** Growing pauses between tries. Each is spread at random over its second half, so that requests that failed together return apart. */
export class Backoff {
  private pauseMs = FIRST_MS;

  /** The pause before the next try, in ms. */
  nextMs(): number {
    const { pauseMs } = this;
    this.pauseMs = Math.min(LONGEST_MS, 2 * pauseMs);
    return pauseMs * (0.5 + Math.random() / 2);
  }
}
