/**
 * Maps server time to ours, always to the side of less trust. A reply that tells server time S, asked for at t0 and
 * received at t1, proves that the server's clock was at S somewhere between t0 and t1. From one such sample follow
 * how long a grant that was pushed to us may be trusted, and until when on the server's clock a request of ours may act.
 *
 * Samples are kept for each source: 0 for a single server, the slot group in a Cluster. A new connection may lead to
 * another server, so it makes them all void.
 */

/** By how much two clocks may drift apart in `lengthMs`: the assumption under every lease. */
export function marginOf(lengthMs: number): number {
  return lengthMs * 0.01 + 5;
}

/** Local instant until which a lease can be trusted that had `leftMs` left when the server answered; it was asked at `sentAt`. */
export function trustOf(leftMs: number, sentAt: number): number {
  return sentAt + leftMs - marginOf(leftMs);
}

/** When a request was sent and its reply received, on our clock, and what the server's clock showed in between. */
export interface Exchange {
  readonly sentAt: number;
  readonly receivedAt: number;
  readonly serverNow: number;
}

/** A pushed grant is only judged by a sample that is at most this old. */
const FRESH_MS = 10_000;
/** The limit of a request counts the drift since the sample in, so the sample may be older. */
const USABLE_MS = 60_000;
/** A younger sample is replaced only by one that allows more trust. */
const KEEP_MS = 2_000;

export class ServerClock {
  private readonly samples = new Map<number, Exchange>();
  /** The last sample of any source: masters of one Cluster have nearly the same time. */
  private latest: Exchange | undefined;
  /** Until when no pushed grant is trusted, because a server's clock was seen to jump. */
  private readonly jumpedUntil = new Map<number, number>();

  observe(source: number, exchange: Exchange): void {
    const { sentAt, receivedAt, serverNow } = exchange;
    const known = this.samples.get(source);
    if (known !== undefined) {
      const margin = marginOf(receivedAt - known.sentAt);
      const ahead = serverNow - receivedAt > known.serverNow + 1 - known.sentAt + margin;
      const behind = serverNow + 1 - sentAt < known.serverNow - known.receivedAt - margin;
      if (ahead || behind) this.jumpedUntil.set(source, receivedAt + FRESH_MS);
      else if (receivedAt - known.receivedAt < KEEP_MS && sentAt - serverNow < known.sentAt - known.serverNow) return;
    }
    this.latest = exchange;
    this.samples.set(source, exchange);
  }

  /** Forgets everything: whoever answers next may be another server. */
  reset(): void {
    this.samples.clear();
    this.latest = undefined;
    this.jumpedUntil.clear();
  }

  /** Until when we may trust a grant that ends at server time `end`, was `lengthMs` long and reached us at `receivedAt`. */
  trustedUntil(source: number, end: number, lengthMs: number, receivedAt: number): number | undefined {
    const sample = this.samples.get(source);
    if (sample === undefined || receivedAt - sample.receivedAt > FRESH_MS) return undefined;
    if ((this.jumpedUntil.get(source) ?? -Infinity) > receivedAt) return undefined;
    const sinceSample = end - sample.serverNow;
    return Math.min(trustOf(sinceSample, sample.sentAt), trustOf(lengthMs, receivedAt));
  }

  /**
   * A server time that is not later than our instant `local`, as far as the source's own clock is known; else about that
   * of its neighbours. 0 when there is nothing to tell it from.
   */
  before(source: number, local: number, now: number): number {
    const sample = this.samples.get(source) ?? this.latest;
    if (sample === undefined || now - sample.receivedAt > USABLE_MS) return 0;
    const sinceSample = local - sample.receivedAt;
    return Math.floor(sample.serverNow + sinceSample - sinceSample * 0.01);
  }
}
