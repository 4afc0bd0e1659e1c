/**
 * Maps server time to the local clock, always to the side of less trust. A reply with the server time S to a request that was sent at
 * t0 and answered at t1 proves that the server's clock showed S at some instant between t0 and t1. From one such sample follow
 * until when a grant that came as a message may be trusted, and until when on the server's clock a request may act.
 *
 * Samples are kept for each shard (redis-keys.ts, `Spot`): one for a single server; in a Cluster one for each slot group, and one for "any
 * master". All are dropped with a new connection, which may lead to another server.
 */
import { WAKES_COUNT_FROM_MS } from '../../core/port/lock-store.js';

/** By how much two clocks may drift apart in `lengthMs`, in ms. Every lease rests on this assumption. */
export function marginOf(lengthMs: number): number {
  return lengthMs * 0.01 + 5;
}

/** The local instant until which a lease can be trusted of which `leftMs` were left when the server answered a request of `sentAt`. */
export function trustOf(leftMs: number, sentAt: number): number {
  return sentAt + leftMs - marginOf(leftMs);
}

/** When a request was sent and its reply received, by the local clock, and what the server's clock showed in between. */
export interface Exchange {
  readonly sentAt: number;
  readonly receivedAt: number;
  readonly serverNow: number;
}

/** The limit of a request is computed from a sample that is at most this old, in ms. It may be older, because the drift is counted in. */
const USABLE_MS = 60_000;
/** A sample that is younger than this, in ms, is replaced only by one that allows more trust. */
const KEEP_MS = 2_000;
/** For this long after an answer was observed, in ms, the commonest answers are not, which spares each of them a look at the clock. */
const FRESH_MS = 100;

/**
 * The limit of a request (`notAfter` in server time) while the server's time is not known: after a minute of silence, or on a new
 * connection. It is long ago by any clock, so that the script finds the request too late and only answers its time; then the request is
 * sent again. It is not sent without a limit, because a copy that is held up in the network could act long after it was given up.
 */
export const LONG_AGO = 1;

/** What is known of the clock of a shard. */
interface Known {
  sample: Exchange;
  /** When its last answer was observed. */
  observedAt: number;
  /** Until when no grant from a message is trusted, because its clock was seen to jump. */
  jumpedUntil: number;
}

export class ServerClock {
  private readonly known = new Map<number, Known>();
  /** The last sample of any shard. It serves shards without one, because the masters of a Cluster have nearly the same time. */
  private latest: Exchange | undefined;

  observe(shard: number, exchange: Exchange): void {
    const { sentAt, receivedAt, serverNow } = exchange;
    const known = this.known.get(shard);
    if (known === undefined) this.known.set(shard, { sample: exchange, observedAt: receivedAt, jumpedUntil: -Infinity });
    else {
      const { sample } = known;
      known.observedAt = receivedAt;
      const margin = marginOf(receivedAt - sample.sentAt);
      const ahead = serverNow - receivedAt > sample.serverNow + 1 - sample.sentAt + margin;
      const behind = serverNow + 1 - sentAt < sample.serverNow - sample.receivedAt - margin;
      if (ahead || behind) known.jumpedUntil = receivedAt + WAKES_COUNT_FROM_MS;
      else if (receivedAt - sample.receivedAt < KEEP_MS && sentAt - serverNow < sample.sentAt - sample.serverNow) return;
      known.sample = exchange;
    }
    this.latest = exchange;
  }

  /** True if an answer of this shard was observed so shortly before that another one would say nothing new. */
  isFresh(shard: number, now: number): boolean {
    return now - (this.known.get(shard)?.observedAt ?? -Infinity) < FRESH_MS;
  }

  /** Forgets everything, because another server may answer next. */
  reset(): void {
    this.known.clear();
    this.latest = undefined;
  }

  /**
   * The local instant until which a grant may be trusted whose message came at `receivedAt`: it ends at the server time `end`, and
   * was `lengthMs` long. Undefined when the server's time is not known well enough.
   */
  trustedUntil(shard: number, end: number, lengthMs: number, receivedAt: number): number | undefined {
    const { sample, jumpedUntil = -Infinity } = this.known.get(shard) ?? {};
    if (sample === undefined || receivedAt - sample.receivedAt > WAKES_COUNT_FROM_MS || jumpedUntil > receivedAt) return undefined;
    const sinceSample = end - sample.serverNow;
    return Math.min(trustOf(sinceSample, sample.sentAt), trustOf(lengthMs, receivedAt));
  }

  /**
   * A server time that is not later than the local instant `local`. It is computed from a sample of the shard, or else of another
   * shard; 0 when there is no sample.
   */
  lowerBound(shard: number, local: number, now: number): number {
    const own = this.known.get(shard)?.sample;
    const sample = own !== undefined && now - own.receivedAt <= USABLE_MS ? own : this.latest;
    if (sample === undefined || now - sample.receivedAt > USABLE_MS) return 0;
    const sinceSample = local - sample.receivedAt;
    return Math.floor(sample.serverNow + sinceSample - Math.abs(sinceSample) * 0.01);
  }
}
