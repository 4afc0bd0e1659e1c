/**
 * The runner sends commands, and tells their answers. Every failure is a LockStoreError. Each command has a deadline, because a connection that lost
 * its peer neither answers nor fails. A connection from which nothing comes at all is given up, so that a new one is made: after
 * {@link SILENT_FOR}, or sooner, once the deadline of a command has passed in its silence. In a Cluster that is the connection of one node,
 * and the others serve on.
 *
 *     awaited ──▶ answered | refused | given up (its deadline has passed, or its connection is silent)
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import type { LockStoreError } from '../../core/port/errors.js';
import type { Connection, Connections } from './connections.js';
import type { BuiltCall } from './lua.generated.js';
import type { Sender, ServerConnection, Target } from './server-connection.js';
import { type Attempt, CLOSED, isReply, NO_MASTER, NOT_CONNECTED, type Outage, reasonOf, reasonWith, storeFailure, UnexpectedReplyError } from './store-failure.js';

/**
 * A command to send, and what is called with its reply or its failure. Until it is answered, the errand itself stands in the list of
 * awaited answers, so that no further object is made for it.
 */
export abstract class Errand {
  /** Which server it was sent to and has not refused it, when, and until when its answer is awaited. Only the runner writes these. */
  sentTo: ServerConnection | undefined = undefined;
  sentAt = 0;
  deadline = 0;
  /** Its position in the list of those that are awaited; -1 when it is not in it. Only the runner writes it. */
  index = -1;
  /** By default the one for all but what waits for replicas. */
  declare readonly connection?: Connection | undefined;
  /** Whether it waits until its connection is open, and does not fail at once when it is not. */
  declare readonly isPatient?: boolean;
  /** For how long the answer is waited for, in ms; undefined: for as long as that of any command. */
  timeoutMs: number | undefined = undefined;

  constructor(
    readonly what: string,
    /** In a Cluster it is sent where this Redis key is; without one to any node. */
    readonly redisKey: string | undefined,
    /** A local instant not later than its sending; by default the moment of that. */
    public askedAt: number | undefined,
  ) {}

  /** `byHash`: to a server that has run it on this connection. Another one might not know the script, and get it again behind what follows. */
  abstract send(to: Sender, byHash: boolean): Promise<unknown>;
  /** Called with the reply. When it throws, {@link failed} is called with the error. */
  abstract answered(reply: unknown): void;
  /** Called with the reason. `runner` makes the error of it that callers see ({@link ScriptRunner.failureOf}). */
  abstract failed(reason: unknown, runner: ScriptRunner): void;
}

/** What a command is about. */
type Subject = Omit<Attempt, 'node'>;

/** A command whose answer is a promise. */
type Sending = Subject & Pick<Errand, 'send'> & Partial<Pick<Errand, 'timeoutMs' | 'connection' | 'isPatient'>>;

export interface ScriptCall extends BuiltCall {
  /** The key of the lock for messages, if the call is about a single one. */
  readonly key?: string | undefined;
  readonly timeoutMs?: number | undefined;
  /** Whether it takes the lock from whoever has it, so that nobody should simply make it again. */
  readonly namesNobody?: boolean | undefined;
}

/** The reply of a script: an integer, a string, or a list of replies. */
export type ScriptReply = number | string | readonly ScriptReply[];

/** Makes the outcome from a reply. The server ran the call between the local instants `sentAt` and `receivedAt`. */
type Decode<R, T> = (reply: R, sentAt: number, receivedAt: number) => T | Promise<T>;

/** The part of its time for which a command waits for replicas. The connection is silent meanwhile, for less than it may be ({@link SILENT_FOR}). */
const WAITS_FOR = 0.7;
/** How often a command is sent again to where the server said, at most. */
const MAX_REDIRECTIONS = 4;
/** A connection is only given up after a silence of this length, in ms: an answer that misses a short deadline may only be slow. */
const LEAST_SILENCE_MS = 1_000;
/** The part of the time of a command after which a silent connection is given up, if that is longer: so the command can be made again in time. */
const SILENT_FOR = 0.75;

export class ScriptRunner {
  /** The connection for all but what waits for replicas. */
  readonly connection: Connection;
  /** The errands that were sent and are not answered yet. Only the runner changes the list. */
  readonly underway: Errand[] = [];
  /** The next look at them. */
  private timer: Timer | undefined;
  private timerAt = Infinity;
  private readonly leastSilenceMs: number;
  private readonly mostSilenceMs: number;
  private closed = false;

  constructor(
    private readonly connections: Connections,
    private readonly clock: Clock,
    private readonly timeoutMs: number,
    private readonly outage: Outage,
  ) {
    this.connection = connections.commands;
    this.leastSilenceMs = Math.min(timeoutMs, LEAST_SILENCE_MS);
    this.mostSilenceMs = Math.max(this.leastSilenceMs, SILENT_FOR * timeoutMs);
  }

  /** Runs a script, and resolves with what `decode` makes of its reply. Rejects with LockStoreError. */
  run<T>(call: ScriptCall, decode: Decode<ScriptReply, T>): Promise<T> {
    const { script: { name, sha1, source }, keys, args } = call;
    const send = (to: Sender, byHash: boolean): Promise<unknown> => to.call(byHash ? 'evalsha' : 'eval', byHash ? sha1 : source, keys.length, ...keys, ...args);
    return this.replyTo({ what: name, redisKeys: keys, ...call, send }, decode);
  }

  /** Runs a script that writes, and then WAIT for `replicas`. `decode` gets its reply, and how many replicas acknowledged it. */
  runAcknowledged<T>(call: ScriptCall, replicas: number, decode: Decode<[ScriptReply, number], T>): Promise<T> {
    const { script: { name, source }, keys, args, timeoutMs = this.timeoutMs } = call;
    // Commands that are sent in one turn of the event loop follow each other without another in between.
    const send = (to: Sender): Promise<unknown> =>
      Promise.all([to.call('eval', source, keys.length, ...keys, ...args), to.call('WAIT', replicas, Math.max(1, Math.floor(WAITS_FOR * timeoutMs)))]);
    const connection = this.connections.replicated(replicas);
    return this.replyTo({ what: name, redisKeys: keys, ...call, connection, isPatient: true, send }, decode);
  }

  /** Sends any other command, with a deadline: in a Cluster where its Redis key is, to this node, or to any. Rejects with LockStoreError. */
  command<R = unknown, T = R>(words: Readonly<Parameters<Sender['call']>>, on?: string | ServerConnection, decode?: Decode<R, T>): Promise<T> {
    const [connection, redisKeys] = typeof on === 'object' ? [on] : [undefined, on === undefined ? undefined : [on]];
    return this.replyTo({ what: words[0], redisKeys, connection, send: (to) => to.call(...words) }, decode ?? ((reply: R) => reply as R & T));
  }

  private replyTo<R, T>(sending: Sending, decode: Decode<R, T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const errand: Errand = {
        timeoutMs: undefined, askedAt: undefined, ...sending, redisKey: sending.redisKeys?.[0], index: -1, sentTo: undefined, sentAt: 0, deadline: 0,
        answered: (reply) => resolve(decode(reply as R, errand.sentAt, this.clock.now())),
        failed: (reason) => reject(this.failureOf(reason, sending)),
      };
      this.perform(errand);
    });
  }

  /** The LockStoreError for an error of one request, which may be one of several in a command. */
  failureOf(error: unknown, { what, key, redisKeys, namesNobody }: Subject): LockStoreError {
    return storeFailure(error, { what, key, node: this.connections.node, redisKeys, namesNobody }, this.connections.lastError);
  }

  close(): void {
    this.closed = true;
    this.outage.close();
    for (const errand of this.underway.splice(0)) {
      errand.index = -1;
      errand.failed(new Error(CLOSED), this);
    }
    this.endTimer();
  }

  /** Sends the errand, and calls its `answered` or `failed`. `corked`: the caller uncorks these servers later; the one that it is sent to is corked and added. */
  perform(errand: Errand, corked?: Set<ServerConnection>): void {
    const { connection = this.connection, askedAt = this.clock.now(), timeoutMs = this.timeoutMs, redisKey } = errand;
    if (this.closed) return queueMicrotask(() => errand.failed(new Error(CLOSED), this));
    errand.sentAt = askedAt;
    errand.deadline = askedAt + timeoutMs;
    errand.index = this.underway.length;
    this.underway.push(errand);
    const to = connection.serving(redisKey);
    if (to === undefined) return this.sendLater(errand, this.connected(errand));
    if (corked !== undefined && !corked.has(to)) {
      corked.add(to);
      to.cork();
    }
    this.send(errand, to);
  }

  /** Calls `done` when every command that was sent has been written to its socket. */
  whenWritten(done: () => void): void {
    if (this.connections.writesNextTurn) this.clock.nextTurn(done);
    else done();
  }

  private send(errand: Errand, to: ServerConnection, left = MAX_REDIRECTIONS): void {
    errand.sentTo = to;
    to.owesSince ??= errand.sentAt;
    to.out += 1;
    const at = Math.min(errand.deadline, to.owesSince + to.patience * this.mostSilenceMs);
    if (at < this.timerAt) this.lookAt(at);
    errand.send(to.sender, to.ran.has(errand.what)).then(
      (reply) => this.answered(errand, reply),
      (error: unknown) => this.refused(errand, error, left),
    );
  }

  /** Where a command is sent that found no connection: nowhere, unless it is patient. Nothing is kept and sent later, because the core asks again. */
  private async connected({ connection = this.connection, isPatient, redisKey }: Errand): Promise<Target> {
    if (isPatient) await connection.opened();
    // Who opens no store, as the command line, is served when it asks again.
    else connection.start().catch(() => {});
    const to = connection.serving(redisKey);
    if (to === undefined) throw new Error(NOT_CONNECTED);
    return { to };
  }

  /** Sends it where it belongs once that is known, unless it was given up meanwhile: then its caller may have sent what comes next. */
  private sendLater(errand: Errand, target: Promise<Target>, left = MAX_REDIRECTIONS): void {
    errand.sentTo = undefined;
    if (errand.deadline < this.timerAt) this.lookAt(errand.deadline);
    target.then(
      ({ to, asking }) => {
        if (errand.index < 0) return;
        // If ASKING fails, the command behind it fails too.
        if (asking) to.sender.call('asking').catch(() => {});
        this.send(errand, to, left);
      },
      (error: unknown) => this.ended(errand, error),
    );
  }

  private answered(errand: Errand, reply: unknown): void {
    this.heard(errand);
    this.remove(errand);
    errand.sentTo!.ran.add(errand.what);
    if (this.outage.since !== undefined) this.outage.answered(errand.what);
    // An answer after the deadline is passed on too, although its caller has got an error: it may say something about other calls.
    try {
      errand.answered(reply);
    } catch (error) {
      this.dropIfUnexpected(errand, error);
      errand.failed(error, this);
    }
  }

  /** Gives a connection up from which an answer came that was for no such request: the answers that follow may be for others as well. */
  dropIfUnexpected({ sentTo }: Errand, error: unknown): void {
    if (error instanceof UnexpectedReplyError) sentTo?.drop();
  }

  private refused(errand: Errand, error: unknown, left: number): void {
    const { sentTo, connection = this.connection } = errand;
    const reason = reasonOf(error);
    this.heard(errand);
    const isSentAgain = errand.index >= 0 && left > 0;
    if (isSentAgain && reason.startsWith('NOSCRIPT')) {
      // An operator removed the scripts. Trust counts from this second request, because the first one did nothing.
      sentTo!.ran.clear();
      errand.sentAt = this.clock.now();
      return this.send(errand, sentTo!, left - 1);
    }
    const elsewhere = isSentAgain ? connection.elsewhere(reason, sentTo!) : undefined;
    if (elsewhere === undefined) this.ended(errand, error);
    else this.sendLater(errand, elsewhere, left - 1);
  }

  private ended(errand: Errand, error: unknown): void {
    const isAwaited = this.remove(errand);
    const reason = reasonOf(error);
    // The server is no master any more, so a new connection is made, which finds the new one.
    if (NO_MASTER.test(reason)) errand.sentTo?.drop();
    if (isReply(error)) this.outage.refused(reason);
    else this.outage.failed(reasonWith(error, this.connections.lastError));
    if (isAwaited) errand.failed(error, this);
  }

  /** Notes that an errand was answered, or its connection has ended. Answers come in order, so the silence of the server counts anew from now. */
  private heard(errand: Errand): void {
    const sentTo = errand.sentTo!;
    if (errand.index >= 0) sentTo.out -= 1;
    sentTo.owesSince = sentTo.out > 0 ? this.clock.now() : undefined;
  }

  /** Removes it from the list, if it is there. The last one of the list takes its position. */
  private remove(errand: Errand): boolean {
    if (errand.index < 0) return false;
    const last = this.underway.pop()!;
    if (last !== errand) {
      last.index = errand.index;
      this.underway[last.index] = last;
    }
    errand.index = -1;
    return true;
  }

  private lookAt(at: number): void {
    this.endTimer();
    this.timerAt = at;
    // The look comes one turn after the timer, so that replies which came while this process was busy or stopped are read first.
    this.timer = this.clock.setTimer(() => this.clock.nextTurn(() => this.look()), at - this.clock.now());
  }

  private endTimer(): void {
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timer = undefined;
    this.timerAt = Infinity;
  }

  private look(): void {
    this.endTimer();
    const now = this.clock.now();
    const silent = new Set(this.underway.filter((errand) => this.isSilent(errand, now)).map(({ sentTo }) => sentTo!));
    let next = Infinity;
    for (const errand of [...this.underway]) {
      if (errand.deadline > now && !silent.has(errand.sentTo!)) next = Math.min(next, errand.deadline, this.silentAt(errand.sentTo, this.mostSilenceMs));
      else this.giveUp(errand, now);
    }
    for (const connection of silent) {
      const reason = unanswered(now - (connection.owesSince ?? now));
      connection.owesSince = undefined;
      connection.drop(reason);
    }
    if (next < Infinity) this.lookAt(next);
  }

  private isSilent({ deadline, sentTo }: Errand, now: number): boolean {
    return now >= this.silentAt(sentTo, now >= deadline ? this.leastSilenceMs : this.mostSilenceMs);
  }

  /** When a server that goes on saying nothing has been silent for so long, which is longer for one that is known to be slow. */
  private silentAt(to: ServerConnection | undefined, silenceMs: number): number {
    return to?.owesSince === undefined ? Infinity : to.owesSince + to.patience * silenceMs;
  }

  private giveUp(errand: Errand, now: number): void {
    const error = unanswered(now - errand.sentAt);
    if (errand.sentTo !== undefined) errand.sentTo.out -= 1;
    this.remove(errand);
    // One with a shorter deadline than usual, for a short lease, is no sign of an outage.
    if (errand.timeoutMs === undefined || errand.timeoutMs >= this.timeoutMs) this.outage.failed(reasonOf(error));
    errand.failed(error, this);
  }
}

function unanswered(forMs: number): Error {
  return new Error(`no answer within ${Math.round(forMs)} ms`);
}
