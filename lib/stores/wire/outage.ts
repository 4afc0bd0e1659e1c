/**
 * Notices when a server stops and begins to serve, by its answers and its connection, and reports both. A failure of a moment is
 * not reported.
 *
 *     serving ──(a command failed)──▶ in doubt ──(still failing after IN_DOUBT_MS)──▶ away, which is reported
 *        ▲                               │                                             │
 *        └───────────────────────────────┴──(it answers, and nothing failed for QUIET_MS)
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import { messageOf } from '../../core/port/errors.js';
import type { Report } from '../../core/port/lock-events.js';

export interface OutageListener {
  /** The server does not serve. */
  away(reason: string): void;
  /** The server serves again; the outage took `afterMs`. */
  back(afterMs: number): void;
  /** Sends the server any question. Its answer is reported to the outage like every other. */
  ask(): void;
}

/** A failure that is over within this time, in ms, is not reported: a reconnection, or a fast failover. */
const IN_DOUBT_MS = 500;
/** An outage ends when nothing failed for this long, in ms. An answer alone does not end it: in a Cluster it may be another master's. */
const QUIET_MS = 500;
/** How often it is looked whether an outage has ended or must be told, in ms. */
const LOOKS_EVERY_MS = 100;
const ASKED_EVERY_MS = 1_000;

/** Error replies that concern every lock. Others concern a single key, a moving slot, or the call itself. */
const OF_THE_SERVER = /\b(LOADING|READONLY|OOM|MISCONF|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|BUSY|NOAUTH|WRONGPASS|NOPERM)\b/;
/** Error replies of a server that refuses writes. It still reads and deletes, so only a command of {@link WRITES} shows that it is back. */
const OF_WRITES = /\b(READONLY|OOM|MISCONF|NOREPLICAS)\b/;
const WRITES: readonly string[] = ['acquire', 'renew', 'vote'];

export class Outage {
  /** When it began; undefined while all is well. Only the outage itself writes it. */
  since: number | undefined;
  private watching = false;
  private failedAt = -Infinity;
  private answeredAt = -Infinity;
  /** Whether the server answers but refuses writes. */
  private refusesWrites = false;
  private reason = '';
  private told = false;
  private timer: Timer | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly listener: OutageListener,
  ) {}

  /** Begins to watch. Failures before that reject the boot and are not reported here. */
  watch(): void {
    this.watching = true;
  }

  /** Notes that a command failed, because there was no connection, no answer in time, or a refusal that concerns every lock. */
  failed(reason: string): void {
    if (!this.watching) return;
    this.failedAt = this.clock.now();
    this.since ??= this.failedAt;
    this.reason = reason;
    this.refusesWrites = OF_WRITES.test(reason);
    this.lookIn(IN_DOUBT_MS);
  }

  /** Notes that the connection ended; `complaint` is its last error. */
  closed(complaint: Error | undefined): void {
    this.failed(complaint === undefined ? 'the connection was closed' : messageOf(complaint));
  }

  /** Notes that the server answered with an error. */
  refused(reason: string): void {
    if (OF_THE_SERVER.test(reason)) this.failed(reason);
    else this.answered('');
  }

  /** Notes that the server has run the command `what`. It is called for every command, so it must be cheap. */
  answered(what: string): void {
    if (this.since === undefined || (this.refusesWrites && !WRITES.includes(what))) return;
    // The outage ended with the first answer after the last failure, unless another failure follows.
    if (this.answeredAt <= this.failedAt) this.answeredAt = this.clock.now();
    this.lookIn(LOOKS_EVERY_MS);
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
    if (answers || !this.told) return this.lookIn(LOOKS_EVERY_MS);
    // Only a write could show that the server is back, and the next request for a lock is one.
    if (this.refusesWrites) return;
    // When no caller uses the server, only this question shows that it is back.
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

/** Reports the beginning and the end of an outage. */
export function outageNews(node: string, report: Report): Pick<OutageListener, 'away' | 'back'> {
  const meanwhile = 'Locks that are held stay held until their leases end, calls wait as long as their waitMs allows, and the server is retried continuously.';
  return {
    away: (reason) => report({ kind: 'store lost', level: 'warning', message: `Locks: ${node} does not serve: ${reason.replace(/\.$/, '')}. ${meanwhile}` }),
    back: (afterMs) => report({ kind: 'store back', level: 'info', message: `Locks: ${node} serves again, after ${lasted(afterMs)}.` }),
  };
}

/** The length of an outage for a log line. */
export function lasted(ms: number): string {
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
