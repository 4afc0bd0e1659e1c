/**
 * Whether a server serves, as its answers and its connection show. What fails for a moment only is not worth a word.
 *
 *     serving ──(something failed)──▶ in doubt ──(still failing after IN_DOUBT_MS)──▶ away, which is told
 *        ▲                               │                                             │
 *        └───────────────────────────────┴──(answers again, and nothing failed for QUIET_MS)
 */
import type { Clock, Timer } from '../../core/port/clock.js';

export interface OutageListener {
  away(reason: string): void;
  back(afterMs: number): void;
  /** Asks the server anything: its answer is told to the outage like every other. */
  ask(): void;
}

/** A connection that is made anew at once, or a failover that nobody noticed, is over by then. */
const IN_DOUBT_MS = 500;
/** On a Cluster one master answers while another is away: an answer alone does not end an outage. */
const QUIET_MS = 500;
const LOOK_MS = 100;
const ASKED_EVERY_MS = 1_000;

/** Refusals that concern every lock. Others concern a single key, a moving slot, or the call itself. */
const OF_THE_SERVER = /\b(LOADING|READONLY|OOM|MISCONF|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|BUSY|NOAUTH|WRONGPASS|NOPERM)\b/;
/** Who refuses to write still reads and deletes: then only these show that it serves again. */
const OF_WRITES = /\b(READONLY|OOM|MISCONF|NOREPLICAS)\b/;
const WRITES: readonly string[] = ['acquire', 'renew', 'vote'];

export class Outage {
  /** When it began; undefined while all is well. Only the outage itself writes it. */
  since: number | undefined;
  private watching = false;
  private failedAt = -Infinity;
  private answeredAt = -Infinity;
  /** It answers, but does not write. */
  private refusesWrites = false;
  private reason = '';
  private told = false;
  private timer: Timer | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly listener: OutageListener,
  ) {}

  /** From now on; what fails before is the boot's to tell. */
  watch(): void {
    this.watching = true;
  }

  /** The same for a server that is known to be away, which has been told. */
  watchAway(): void {
    this.watch();
    this.since ??= this.clock.now();
    this.failedAt = this.clock.now();
    this.told = true;
    this.lookIn(ASKED_EVERY_MS);
  }

  /** Something could not be done for want of a connection or of an answer. */
  failed(reason: string): void {
    if (!this.watching) return;
    this.failedAt = this.clock.now();
    this.since ??= this.failedAt;
    this.reason = reason;
    this.refusesWrites = OF_WRITES.test(reason);
    this.lookIn(IN_DOUBT_MS);
  }

  /** The connection ended; `complaint` is what it said last. */
  closed(complaint: Error | undefined): void {
    this.failed(complaint?.message ?? 'the connection was closed');
  }

  /** The server answered that it does not do it. */
  refused(reason: string): void {
    if (OF_THE_SERVER.test(reason)) this.failed(reason);
    else this.answered('');
  }

  /** `what` was done. While all is well this says nothing new. */
  answered(what: string): void {
    if (this.since === undefined || (this.refusesWrites && !WRITES.includes(what))) return;
    // The first answer after the last failure is the end, if there is no further failure.
    if (this.answeredAt <= this.failedAt) this.answeredAt = this.clock.now();
    this.lookIn(LOOK_MS);
  }

  close(): void {
    this.watching = false;
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timer = undefined;
    this.since = undefined;
  }

  private lookIn(delayMs: number): void {
    this.timer ??= this.clock.setTimer(() => this.look(), delayMs);
  }

  private look(): void {
    this.timer = undefined;
    const { since, failedAt, answeredAt } = this;
    if (since === undefined) return;
    const now = this.clock.now();
    const answers = answeredAt > failedAt;
    if (answers && now - failedAt >= QUIET_MS) return this.end(answeredAt - since);
    if (!this.told && (answers ? failedAt : now) - since >= IN_DOUBT_MS) this.tell();
    if (answers || !this.told) return this.lookIn(LOOK_MS);
    // The next write will tell, and no other question would.
    if (this.refusesWrites) return;
    // While nobody else asks it, nobody else would hear that it is back.
    this.listener.ask();
    this.lookIn(ASKED_EVERY_MS);
  }

  private tell(): void {
    this.told = true;
    this.listener.away(this.reason);
  }

  private end(afterMs: number): void {
    const { told } = this;
    this.since = undefined;
    this.told = false;
    if (told) this.listener.back(afterMs);
  }
}

/** How long an outage was, for people. */
export function lasted(ms: number): string {
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
