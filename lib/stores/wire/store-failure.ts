/**
 * What a failure is: for one call a LockStoreError, made of what the client says, which names the node, the reason and the lock, and says
 * whether trying again can help; and for the operator an outage, once the server has not served for more than a moment.
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import { LockStoreError, messageOf } from '../../core/port/errors.js';
import type { Report } from '../../core/port/lock-events.js';
import type { ReplyItems } from './lua.generated.js';

/** Error replies after which trying again does not help before an operator has acted. */
const FOR_THE_OPERATOR = /\b(NOPERM|NOAUTH|WRONGPASS|WRONGTYPE|DAMAGED|DENIED|can't run this command|ERR unknown command|ERR AUTH)\b/;
/** Error replies that concern every lock. Others concern a single key, a moving slot, or the call itself. */
const OF_THE_SERVER = /\b(LOADING|READONLY|OOM|MISCONF|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|BUSY|NOAUTH|WRONGPASS|NOPERM)\b/;
/** Error replies of a master that refuses writes. It still reads and deletes, so only a command of {@link WRITES} shows that it is back. */
const OF_WRITES = /\b(OOM|MISCONF|NOREPLICAS)\b/;
const WRITES: readonly string[] = ['acquire', 'renew'];
/** Error replies about one Redis key, which holds something else. */
const DAMAGE = /\b(WRONGTYPE|DAMAGED)\b/;

/**
 * The error replies of a server that is no master any more, which is left for the new one. Redis 6 says READONLY inside the error of a
 * script, and others say ERR before it when a script passes the error on (refusal.lua).
 */
export const NO_MASTER = /^(?:ERR )?(?:READONLY|MASTERDOWN)\b|: -READONLY\b/;

/** The line of a script that Redis 6.2 puts before the words of an error. */
const IN_A_SCRIPT = /^@?user_script: ?\d+: -?(?=[A-Z]+ )/;

/** The reason of a command that was not sent, because there was no connection. */
export const NOT_CONNECTED = 'not connected';
/** The reason of a command that came after the end of its store, or was on its way then. */
export const CLOSED = 'the store was closed';

/** The command that failed, and its lock. */
export interface Attempt {
  readonly what: string;
  readonly key?: string | undefined;
  /** The Redis keys of the command, if they are those of one lock. */
  readonly redisKeys?: readonly string[] | undefined;
  /** True if it takes the lock from whoever has it: made again, it could take it from somebody who was not meant. */
  readonly namesNobody?: boolean | undefined;
}

/** What to do after a failed attempt that names nobody. */
export const LOOK_FIRST = 'The outcome is not known, and another holder may have the lock now: look with inspect(), and name the fence of the holder that is meant.';

/** Where a command was sent, and the last error of its connection. */
interface Asked {
  readonly node: string;
  readonly lastError?: Error | undefined;
}

/** The LockStoreError for `error`. */
export function storeFailure(error: unknown, attempt: Attempt, { node, lastError }: Asked): LockStoreError {
  const { what, key, namesNobody = false } = attempt;
  if (error instanceof LockStoreError) return error;
  const reason = reasonWith(error, lastError);
  const isForOperator = FOR_THE_OPERATOR.test(reason);
  const isClosed = reasonOf(error) === CLOSED;
  const isSafe = isClosed ? 'The outcome is not known; this process serves no locks any more, so try again in another one.' : 'The outcome is not known; it is safe to try again.';
  const afterwards = namesNobody ? LOOK_FIRST : isSafe;
  const next = isForOperator ? (damageOf(reason, attempt) ?? 'Trying again does not help until an operator has corrected the server.') : afterwards;
  const message = `${subjectOf(key)}: ${what} failed on ${node}: ${reason}. ${next}`;
  return new LockStoreError(message, { key, cause: causeOf(error), nodes: [{ node, reason }], retryable: !isForOperator && !namesNobody && !isClosed });
}

/** What an error is about, as its message begins. */
export function subjectOf(key: string | undefined): string {
  return key === undefined ? 'Locks' : `Lock '${key}'`;
}

/** The reason of an error. When there was no connection, the last error of the connection says why. */
export function reasonWith(error: unknown, complaint: Error | undefined): string {
  const known = reasonOf(error);
  const why = complaint === undefined ? known : reasonOf(complaint);
  return known === NOT_CONNECTED && why !== known ? `${known} (${why})` : known;
}

/** Names the Redis key that holds something else, so that the reader finds it; undefined for any other failure. */
function damageOf(reason: string, { key, redisKeys }: Attempt): string | undefined {
  if (key === undefined || redisKeys === undefined || !DAMAGE.test(reason)) return undefined;
  const kinds = redisKeys.map((redisKey) => `'${redisKey}' (a ${/^\{[^}]*\}:q:/.test(redisKey) ? 'hash' : 'string'})`);
  const which = redisKeys.length === 1 ? kinds[0] : `one of the Redis keys ${kinds.join(', ')}`;
  return `Another program has put something else at ${which}: delete or rename it.`;
}

/** The words of ioredis and node-redis for a missing connection. They are about options of a client that the user has not set. */
const NO_CONNECTION =
  /writeable and enableOfflineQueue|Connection is closed|^The client is (?:closed|offline)|^Socket closed unexpectedly|^Disconnects client/;

export function reasonOf(error: unknown): string {
  const said = withoutArguments(messageOf(error)).replace(/\.$/, '').replace(IN_A_SCRIPT, '');
  return NO_CONNECTION.test(said) ? NOT_CONNECTED : said;
}

/**
 * A copy of the error that may be printed. ioredis adds the command with all its arguments to its errors, and one may be a password;
 * the copy has only the name of the command.
 */
export function causeOf(error: unknown): Error | undefined {
  if (error == null) return undefined;
  if (error instanceof LockStoreError) return error;
  const { name, stack, code, command } = error as Complaint;
  const copy = new Error(withoutArguments(messageOf(error)));
  if (name !== undefined) copy.name = name;
  if (stack !== undefined) copy.stack = withoutArguments(stack);
  return Object.assign(copy, code === undefined ? {} : { code }, command?.name === undefined ? {} : { command: command.name });
}

interface Complaint {
  readonly name?: string;
  readonly message?: string;
  readonly stack?: string;
  readonly code?: string;
  readonly command?: { readonly name?: string };
}

/** The text without the arguments of a command, which a server repeats when it does not know the command. */
function withoutArguments(text: string): string {
  return text.replace(/,? with args beginning with:[^\n]*/g, '');
}

/**
 * True if the slot is being moved to another node, so that a command with several keys cannot be served while one with a single key
 * can.
 */
export function isTryAgain(error: unknown): boolean {
  return /\b(?:TRYAGAIN|(?:ASK|MOVED) \d)/.test(reasonOf(error));
}

/**
 * True if a server sent this error. An error reply begins with its code in capitals, or with the line of a script, and no error of a
 * client does. The error of node-redis for a reply has no name of its own.
 */
export function isReply(error: unknown): boolean {
  const { name, message } = (error ?? {}) as Complaint;
  return name === 'ReplyError' || /^(?:[A-Z]{2,} |@?user_script:)/.test(String(message));
}

/**
 * The error for a reply that no script of this version gives: something else between this process and the server has answered, or an
 * answer got lost on the way, so that every later one is taken for the answer to the command before.
 */
export class UnexpectedReplyError extends Error {
  constructor(reply: unknown) {
    super(`the server gave an answer that no script of this library gives: ${JSON.stringify(reply)}`);
  }
}

/** The reply as a list. @throws Error with the server's words when it refused this request of several (refusal.lua) */
export function listOf(reply: unknown): ReplyItems {
  if (!Array.isArray(reply)) throw new UnexpectedReplyError(reply);
  const list = reply as ReplyItems;
  if (list[0] === 'refused') throw new Error(String(list[1]));
  return list;
}

/** What `read` makes of each item of a list that is an item of a reply. */
export function eachOf<T>(list: unknown, read: (item: ReplyItems) => T): readonly T[] {
  return listOf(list).map((item: unknown) => read(item as ReplyItems));
}

/** The reason that is told while a server recovers. */
export const RECOVERING_REASON = 'recovering';

/** For a request to a server that recovers, and does so for `forMs` more. */
export function recoveringError(key: string, node: string, forMs: number): LockStoreError {
  const message =
    `Lock '${key}': ${node} was restarted, replaced or flushed, and grants nothing new for ${Math.ceil(forMs)} ms more, so that those ` +
    'who hold locks can tell it. Nothing was begun; it is safe to try again then.';
  return new LockStoreError(message, { key, nodes: [{ node, reason: RECOVERING_REASON }] });
}

/** True if the failure is about one lock only: one of its Redis keys holds something else. */
export function isOfOneLock(error: unknown): error is LockStoreError {
  return error instanceof LockStoreError && !error.retryable && error.nodes.some(({ reason }) => DAMAGE.test(reason));
}

export interface OutageListener {
  /** The server does not serve. */
  away(reason: string): void;
  /** The server serves again; the outage took `afterMs`. */
  back(afterMs: number): void;
}

/** A failure that is over within this time, in ms, is not reported: a reconnection, or a fast failover. */
const IN_DOUBT_MS = 500;
/** An outage ends when nothing failed for this long, in ms. An answer alone does not end it: in a Cluster it may be another master's. */
const QUIET_MS = 500;
/** The time in ms between two looks at an outage: the store looks whether it has ended, or has to be reported now. */
const LOOKS_EVERY_MS = 100;
const ASKED_EVERY_MS = 1_000;

/**
 * Notices when a server stops and begins to serve, by its answers and its connection, and reports both. A failure of a moment is
 * not reported.
 *
 *     serving ──(a command failed)──▶ in doubt ──(still failing after IN_DOUBT_MS)──▶ away, which is reported
 *        ▲                               │                                             │
 *        └───────────────────────────────┴──(it answers, and nothing failed for QUIET_MS)
 */
export class Outage {
  /** When it began; undefined while all is well. Only the outage itself writes it. */
  since: number | undefined;
  private watching = false;
  private failedAt = -Infinity;
  private answeredAt = -Infinity;
  /** True if the server answers but refuses writes. */
  private refusesWrites = false;
  private reason = '';
  /** True if the outage was reported. Only the outage itself writes it. */
  isAway = false;
  private timer: Timer | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly listener: OutageListener,
    /** Sends the server a question that it refuses as long as it runs no scripts. Its answer is reported to the outage like every other. */
    private readonly ask: () => void,
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
    this.clock.clearTimer(this.timer);
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
    if (answers && now - failedAt >= QUIET_MS) {
      this.since = undefined;
      if (!this.isAway) return;
      this.isAway = false;
      return this.listener.back(answeredAt - since);
    }
    if (!this.isAway && (answers ? failedAt : now) - since >= IN_DOUBT_MS) {
      this.isAway = true;
      this.listener.away(this.reason);
    }
    if (answers || !this.isAway) return this.lookIn(LOOKS_EVERY_MS);
    // Only a write could show that the server is back, and the next request for a lock is one.
    if (this.refusesWrites) return;
    // When no caller uses the server, only this question shows that it is back.
    this.ask();
    this.lookIn(ASKED_EVERY_MS);
  }
}

/** Reports the beginning and the end of an outage. */
export function outageNews(node: string, report: Report): OutageListener {
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
