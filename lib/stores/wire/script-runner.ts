/**
 * The runner sends commands, and passes on their replies. Every failure is a LockStoreError. Each command has a deadline, because a
 * connection that lost its peer neither answers nor fails. A connection from which nothing comes at all is given up, so that a new one is
 * made: after {@link SILENT_FOR}, or sooner, once the deadline of a command has passed in its silence. In a Cluster that is the connection of one node,
 * and the others serve on.
 *
 *     awaited ──▶ answered | refused | given up (its deadline has passed, or its connection is silent)
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import type { LockStoreError } from '../../core/port/errors.js';
import type { Connection, Connections } from './connections.js';
import type { BuiltCall } from './lua.generated.js';
import { sentAndRead, type Sender, type ServerConnection, type Target } from './server-connection.js';
import {
  type Attempt, CLOSED, isReply, NO_MASTER, NOT_CONNECTED, type Outage, reasonOf, reasonWith, storeFailure, UnexpectedReplyError,
} from './store-failure.js';

/**
 * A command to send, with the methods that receive its reply or its failure. The command itself stands in the runner's list until it is
 * answered, so that no further object is made for it.
 */
export abstract class Command {
  /** The server to which it was sent last, when that was, and until when its answer is awaited. Only the runner writes these, when it sends it. */
  declare sentTo: ServerConnection | undefined;
  declare sentAt: number;
  declare deadline: number;
  /** Its position in the list of those that are awaited; -1 when it is not in it any more. Only the runner writes it. */
  declare index: number;
  /** By default the one for all but what waits for replicas. */
  declare readonly connection?: Connection | undefined;
  /** True if it waits until its connection is open, and does not fail at once when it is not. */
  declare readonly waitsForOpen?: boolean;
  /** For how long the answer is waited for, in ms; undefined: for as long as that of any command. */
  declare readonly timeoutMs?: number | undefined;
  abstract readonly what: string;
  /** In a Cluster it is sent where this Redis key is; without one to any node. */
  abstract readonly redisKey: string | undefined;
  /** A local instant not later than its sending; by default the moment of that. */
  abstract readonly askedAt: number | undefined;

  /** `byHash`: to a server that has run it on this connection. Another one might not know the script, and get it again behind what follows. */
  abstract send(to: Sender, byHash: boolean): Promise<unknown>;
  /** Is called with the reply. When it throws, {@link failed} is called with the error. */
  abstract answered(reply: unknown): void;
  /** Is called with the reason. `runner` makes the error of it that callers see ({@link ScriptRunner.failureOf}). */
  abstract failed(reason: unknown, runner: ScriptRunner): void;
}

/** A command whose answer is a promise. */
type Sending = Attempt & Pick<Command, 'send'> & Partial<Pick<Command, 'timeoutMs' | 'connection' | 'waitsForOpen'>>;

export interface ScriptCall extends BuiltCall {
  /** The key of the lock for messages, if the call is about a single one. */
  readonly key?: string | undefined;
  readonly timeoutMs?: number | undefined;
  /** True if it takes the lock from whoever has it, so that nobody should simply make it again. */
  readonly namesNobody?: boolean | undefined;
}

/** The reply of a script: an integer, a string, or a list of replies. */
export type ScriptReply = number | string | readonly ScriptReply[];

/** Makes the outcome from a reply. The server ran the call between the local instants `sentAt` and `receivedAt`. */
type Decode<R, T> = (reply: R, sentAt: number, receivedAt: number) => T | Promise<T>;

/** The part of its time for which a command waits for replicas. The connection is silent meanwhile, for less than it may be ({@link SILENT_FOR}). */
const WAITS_FOR = 0.7;
/** How often a command is sent on to where the server says that it belongs, at most. */
const MAX_REDIRECTIONS = 4;
/** A connection is only given up after a silence of this length, in ms: an answer that misses a short deadline may only be slow. */
const LEAST_SILENCE_MS = 1_000;
/** The part of the time of a command after which a silent connection is given up, if that is longer: so the command can be made again in time. */
const SILENT_FOR = 0.75;

export class ScriptRunner {
  /** The connection for all but what waits for replicas. */
  readonly connection = this.connections.commands;
  /** The commands that were sent and are not answered yet. Only the runner changes the list. */
  readonly underway: Command[] = [];
  /** The next look at them. */
  private timer: Timer | undefined;
  private timerAt = Infinity;
  private readonly leastSilenceMs = Math.min(this.timeoutMs, LEAST_SILENCE_MS);
  private readonly mostSilenceMs = Math.max(this.leastSilenceMs, SILENT_FOR * this.timeoutMs);
  private closed = false;

  constructor(
    private readonly connections: Connections,
    private readonly clock: Clock,
    private readonly timeoutMs: number,
    private readonly outage: Outage,
  ) {}

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
    return this.replyTo({ what: name, redisKeys: keys, ...call, connection, waitsForOpen: true, send }, decode);
  }

  /** Sends any other command, with a deadline: in a Cluster where its Redis key is, to this node, or to any. Rejects with LockStoreError. */
  command<R = unknown, T = R>(words: Readonly<Parameters<Sender['call']>>, on?: string | ServerConnection, decode?: Decode<R, T>): Promise<T> {
    const [connection, redisKeys] = typeof on === 'object' ? [on] : [undefined, on === undefined ? undefined : [on]];
    return this.replyTo({ what: words[0], redisKeys, connection, send: (to) => to.call(...words) }, decode ?? ((reply: R) => reply as R & T));
  }

  private replyTo<R, T>(sending: Sending, decode: Decode<R, T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const command: Command = {
        timeoutMs: undefined, askedAt: undefined, ...sending, redisKey: sending.redisKeys?.[0], index: -1, sentTo: undefined, sentAt: 0, deadline: 0,
        answered: (reply) => resolve(decode(reply as R, command.sentAt, this.clock.now())),
        failed: (reason) => reject(this.failureOf(reason, sending)),
      };
      this.perform(command);
    });
  }

  /** The LockStoreError for an error of one request, which may be one of several in a command. */
  failureOf(error: unknown, attempt: Attempt): LockStoreError {
    return storeFailure(error, attempt, this.connections);
  }

  close(): void {
    this.closed = true;
    this.outage.close();
    for (const command of this.underway.splice(0)) {
      command.index = -1;
      command.failed(new Error(CLOSED), this);
    }
    this.endTimer();
  }

  /**
   * Sends the command, and calls its `answered` or `failed`. `corked`: the server that it is sent to is corked and added to them, and the
   * caller uncorks all of them later.
   */
  perform(command: Command, corked?: Set<ServerConnection>): void {
    const { connection = this.connection, askedAt = this.clock.now(), timeoutMs = this.timeoutMs, redisKey } = command;
    if (this.closed) return queueMicrotask(() => command.failed(new Error(CLOSED), this));
    command.sentAt = askedAt;
    command.deadline = askedAt + timeoutMs;
    command.index = this.underway.length;
    this.underway.push(command);
    const to = connection.serving(redisKey);
    if (to === undefined) return this.sendLater(command, this.connected(command));
    if (corked !== undefined && !corked.has(to)) {
      corked.add(to);
      to.cork();
    }
    this.send(command, to);
  }

  /** Calls `done` when every command that was sent has been written to its socket. */
  whenWritten(done: () => void): void {
    if (this.connections.writesNextTurn) this.clock.nextTurn(done);
    else done();
  }

  private send(command: Command, to: ServerConnection, left = MAX_REDIRECTIONS): void {
    command.sentTo = to;
    to.owesSince ??= command.sentAt;
    to.last = command;
    const at = Math.min(command.deadline, to.owesSince + to.patience * this.mostSilenceMs);
    if (at < this.timerAt) this.setTimer(at);
    command.send(to.sender, to.ran.has(command.what)).then(
      (reply) => this.answered(command, reply),
      (error: unknown) => this.refused(command, error, left),
    );
  }

  /** Rejects for a command that found no connection, unless it waits for one. Nothing is kept to be sent later, because the core asks again. */
  private async connected({ connection = this.connection, waitsForOpen, redisKey }: Command): Promise<Target> {
    if (waitsForOpen) await connection.opened();
    // A process that opens no store, as the command line, is served when it asks again.
    else connection.start().catch(() => {});
    const to = connection.serving(redisKey);
    if (to === undefined) throw new Error(NOT_CONNECTED);
    return { to };
  }

  /** Sends it where it belongs once that is known, unless it was given up meanwhile: then its caller may have sent what comes next. */
  private sendLater(command: Command, target: Promise<Target>, left = MAX_REDIRECTIONS): void {
    command.sentTo = undefined;
    if (command.deadline < this.timerAt) this.setTimer(command.deadline);
    target.then(
      ({ to, asking }) => {
        if (command.index < 0) return;
        // If ASKING fails, the command behind it fails too.
        if (asking) to.sender.call('asking').catch(() => {});
        this.send(command, to, left);
      },
      (error: unknown) => this.ended(command, error),
    );
  }

  private answered(command: Command, reply: unknown): void {
    const to = command.sentTo!;
    // The silence of the server counts anew from now.
    if (to.owesSince !== undefined) to.owesSince = to.last === command ? undefined : this.clock.now();
    this.remove(command);
    to.ran.add(command.what);
    if (this.outage.since !== undefined) this.outage.answered(command.what);
    // An answer after the deadline is passed on too, although its caller has got an error: it may say something about other calls.
    try {
      command.answered(reply);
    } catch (error) {
      this.dropIfUnexpected(command, error);
      command.failed(error, this);
    }
  }

  /** Gives a connection up from which an answer came that was for no such request: the answers that follow may be for others as well. */
  dropIfUnexpected({ sentTo }: Command, error: unknown): void {
    if (error instanceof UnexpectedReplyError) sentTo?.drop();
  }

  private refused(command: Command, error: unknown, left: number): void {
    const { connection = this.connection } = command;
    const to = command.sentTo!;
    const reason = reasonOf(error);
    // A refusal is an answer too, so the silence counts anew. It is written twice, because a method for it would be a call more for each answer.
    if (to.owesSince !== undefined) to.owesSince = to.last === command ? undefined : this.clock.now();
    const isSentAgain = command.index >= 0 && left > 0;
    if (isSentAgain && reason.startsWith('NOSCRIPT')) {
      // An operator removed the scripts. Trust counts from this second request, because the first one did nothing.
      to.ran.clear();
      command.sentAt = this.clock.now();
      return this.send(command, to, left - 1);
    }
    const elsewhere = isSentAgain ? connection.elsewhere(reason, to) : undefined;
    if (elsewhere === undefined) this.ended(command, error);
    else this.sendLater(command, elsewhere, left - 1);
  }

  private ended(command: Command, error: unknown): void {
    const isAwaited = this.remove(command);
    const reason = reasonOf(error);
    // The server is no master any more, so a new connection is made, which finds the new one.
    if (NO_MASTER.test(reason)) command.sentTo?.drop(true);
    if (isReply(error)) this.outage.refused(reason);
    else this.outage.failed(reasonWith(error, this.connections.lastError));
    if (isAwaited) command.failed(error, this);
  }

  /** Removes it from the list, if it is there. The last one of the list takes its position. */
  private remove(command: Command): boolean {
    if (command.index < 0) return false;
    const last = this.underway.pop()!;
    if (last !== command) {
      last.index = command.index;
      this.underway[last.index] = last;
    }
    command.index = -1;
    return true;
  }

  /** Sets the timer of the next look. */
  private setTimer(at: number): void {
    this.endTimer();
    this.timerAt = at;
    // Replies which came while this process was busy or stopped are read before the look.
    this.timer = this.clock.setTimer(() => void sentAndRead(this.clock).then(() => this.look()), at - this.clock.now());
  }

  private endTimer(): void {
    this.clock.clearTimer(this.timer);
    this.timer = undefined;
    this.timerAt = Infinity;
  }

  private look(): void {
    this.endTimer();
    const now = this.clock.now();
    const silent = new Set(this.underway.filter((command) => this.isSilent(command, now)).map(({ sentTo }) => sentTo!));
    let next = Infinity;
    for (const command of [...this.underway]) {
      if (command.deadline > now && !silent.has(command.sentTo!)) next = Math.min(next, command.deadline, this.silentAt(command.sentTo, this.mostSilenceMs));
      else this.giveUp(command, now);
    }
    for (const connection of silent) {
      const reason = unanswered(now - (connection.owesSince ?? now));
      connection.owesSince = undefined;
      if (connection.isOpen) connection.leaveSilent(reason);
    }
    if (next < Infinity) this.setTimer(next);
  }

  private isSilent({ deadline, sentTo }: Command, now: number): boolean {
    return now >= this.silentAt(sentTo, now >= deadline ? this.leastSilenceMs : this.mostSilenceMs);
  }

  /** When a server that goes on saying nothing has been silent for so long, which is longer for one that is known to be slow. */
  private silentAt(to: ServerConnection | undefined, silenceMs: number): number {
    return to?.owesSince === undefined ? Infinity : to.owesSince + to.patience * silenceMs;
  }

  private giveUp(command: Command, now: number): void {
    const error = unanswered(now - command.sentAt);
    this.remove(command);
    // One with a shorter deadline than usual, for a short lease, is no sign of an outage.
    if (command.timeoutMs === undefined || command.timeoutMs >= this.timeoutMs) this.outage.failed(reasonOf(error));
    command.failed(error, this);
  }
}

function unanswered(forMs: number): Error {
  return new Error(`no answer within ${Math.round(forMs)} ms`);
}
