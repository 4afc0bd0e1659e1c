/**
 * Runs scripts by EVALSHA, and by EVAL when the server does not know the script yet. Each call has a deadline, and every failure is
 * a LockStoreError.
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import { NO_MASTER, type Connection, type Connections, type ConnectionState, type Sender } from './connections.js';
import type { BuiltCall } from './lua.generated.js';
import type { Outage } from './outage.js';
import { type Attempt, isNoScript, isReply, NOT_CONNECTED, reasonOf, reasonWith, storeFailure, UnexpectedReplyError } from './store-failure.js';

/** What is sent, and how. */
interface Sending {
  /** What is sent, for messages. */
  readonly what: string;
  /** The lock that the command is about, for messages. */
  readonly key: string | undefined;
  /** The Redis keys of the lock `key`. */
  readonly redisKeys?: readonly string[] | undefined;
  /** Whether it takes the lock from whoever has it. */
  readonly namesNobody?: boolean | undefined;
  readonly timeoutMs?: number | undefined;
  send(): Promise<unknown>;
  /** Sends the source of the script, to a server that does not know it. */
  sendSource?(): Promise<unknown>;
}

/**
 * A command to send over one connection, and what is called with its reply or its failure. Until it is answered, the errand
 * itself stands in the list of awaited answers, so that no further object is made for it.
 */
export interface Errand extends Sending {
  readonly line: Line;
  /** Its position in the list of those that are awaited; -1 when it is not in it. Only AwaitedAnswers writes it. */
  index: number;
  /** Only the runner writes these. */
  sentAt: number;
  deadline: number;
  isGivenUp: boolean;
  /** Called with the reply. When it throws, {@link failed} is called with the error. */
  answered(reply: unknown): void;
  failed(error: LockStoreError): void;
}

export interface ScriptCall extends BuiltCall {
  /** The key of the lock for messages, if the call is about a single one. */
  readonly key?: string | undefined;
  readonly timeoutMs?: number | undefined;
  /** Whether it takes the lock from whoever has it, so that nobody should simply make it again. */
  readonly namesNobody?: boolean | undefined;
  /** Whether it is sent as source: a server that does not know its hash would run it after what was sent behind it. */
  readonly inOrder?: boolean | undefined;
}

/** The reply of a script: an integer, a string, or a list of replies. */
export type ScriptReply = number | string | readonly ScriptReply[];

/** Makes the outcome from a reply. The server ran the call between the local instants `sentAt` and `receivedAt`. */
type Decode<R, T> = (reply: R, sentAt: number, receivedAt: number) => T | Promise<T>;

/** A connection is only given up after a silence of this length, in ms: an answer that misses a short deadline may only be slow. */
const LEAST_SILENCE_MS = 1_000;

export class ScriptRunner {
  /** The connection for all but what waits for replicas. */
  readonly line: Line;
  private readonly awaited: AwaitedAnswers;
  /**
   * The connections for renewals with WAIT, one for each number of replicas: while some miss theirs, the others have one of their own.
   * They have more patience, because they are silent while they wait.
   */
  private readonly replicated = new Map<number, Line>();
  private closed = false;

  constructor(
    private readonly connections: Connections,
    private readonly clock: Clock,
    private readonly timeoutMs: number,
    private readonly outage: Outage,
  ) {
    this.awaited = new AwaitedAnswers(clock, (connection, reason) => connection.drop(reason), (errand, error) => this.unanswered(errand, error));
    // A Cluster has a connection for each node, which the adapter closes after a silence.
    this.line = this.lineOf(connections.commands, connections.isCluster ? Infinity : connections.patienceMs);
  }

  /** Runs a script, and resolves with what `decode` makes of its reply. Rejects with LockStoreError. */
  run<T>({ script, keys, args, key, timeoutMs, namesNobody, inOrder }: ScriptCall, decode: Decode<ScriptReply, T>): Promise<T> {
    const { connection } = this.line;
    const sendSource = (): Promise<unknown> => connection.sender.eval(script.source, keys.length, ...keys, ...args);
    const send = inOrder ? sendSource : (): Promise<unknown> => connection.sender.evalsha(script.sha1, keys.length, ...keys, ...args);
    return this.replyTo(this.line, { what: script.name, key, redisKeys: keys, namesNobody, timeoutMs, send, sendSource }, decode);
  }

  /** Runs a script that writes, and then WAIT for `replicas`. `decode` gets the reply and how many replicas acknowledged. */
  runAcknowledged<T>(call: ScriptCall, replicas: number, decode: (reply: ScriptReply, acknowledged: number, sentAt: number) => T): Promise<T> {
    const { script, keys, args, key, timeoutMs = this.timeoutMs } = call;
    const line = this.lineFor(replicas);
    const { connection } = line;
    const until = this.clock.now() + timeoutMs;
    const send = async () => {
      await this.whenReady(connection);
      // The caller has got an error for the deadline already, and may have sent what comes next.
      if (this.clock.now() >= until) throw new Error('not connected in time');
      return connection.evalAndWait({ source: script.source, keys, args, replicas, waitMs: Math.max(1, Math.floor(0.8 * timeoutMs)) });
    };
    return this.replyTo<[ScriptReply, number], T>(line, { what: script.name, key, timeoutMs, send }, ([reply, acknowledged], sentAt) => decode(reply, acknowledged, sentAt));
  }

  /**
   * Called when the commands have a new connection, perhaps to another server: the connections for renewals with WAIT are made anew, so
   * that they lead there too. An idle one outlives a failover when the former master was only frozen.
   */
  follow(): void {
    for (const { connection } of this.replicated.values()) connection.drop();
  }

  /** Sends any other command, with a deadline. Rejects with LockStoreError. */
  command<T = unknown>(what: string, send: (client: Sender) => Promise<unknown>): Promise<T> {
    return this.timed<T, T>(what, send, (reply) => reply);
  }

  /** The same, with a `decode` that gets the local instants between which the server ran the command. */
  timed<R, T>(what: string, send: (client: Sender) => Promise<unknown>, decode: Decode<R, T>): Promise<T> {
    return this.replyTo(this.line, { what, key: undefined, send: () => send(this.line.connection.sender) }, decode);
  }

  private replyTo<R, T>(line: Line, sending: Sending, decode: Decode<R, T>): Promise<T> {
    return new Promise((resolve, failed) => {
      const errand: Errand = {
        ...sending, line, failed, index: -1, sentAt: 0, deadline: 0, isGivenUp: false,
        answered: (reply) => resolve(decode(reply as R, errand.sentAt, this.clock.now())),
      };
      this.perform(errand);
    });
  }

  /** The LockStoreError for an error of one request, which may be one of several in a command. */
  failureOf(error: unknown, { what, key, redisKeys, namesNobody }: Omit<Attempt, 'node'>): LockStoreError {
    return storeFailure(error, { what, key, node: this.connections.node, redisKeys, namesNobody }, this.connections.lastError);
  }

  close(): void {
    this.closed = true;
    this.outage.close();
    this.awaited.close(new Error('the store was closed'));
  }

  private lineFor(replicas: number): Line {
    let line = this.replicated.get(replicas);
    if (line === undefined) this.replicated.set(replicas, (line = this.lineOf(this.connections.replicated(), this.timeoutMs)));
    return line;
  }

  private lineOf(connection: Connection, patienceMs: number): Line {
    // In a Cluster a late node is no sign that the others are silent.
    const hasteMs = patienceMs === Infinity ? Infinity : Math.min(this.timeoutMs, LEAST_SILENCE_MS);
    return { connection, state: connection.state, patienceMs, hasteMs, owesSince: undefined, out: 0 };
  }

  /** Sends the errand, and calls its `answered` or `failed`. `askedAt`: a local instant not later than its sending. */
  perform(errand: Errand, askedAt = this.clock.now()): void {
    const { line } = errand;
    if (this.closed) return errand.failed(closedError({ what: errand.what, key: errand.key, node: this.connections.node }));
    errand.sentAt = askedAt;
    errand.deadline = askedAt + (errand.timeoutMs ?? this.timeoutMs);
    this.awaited.add(errand);
    const sent = line.state.isOpen || line !== this.line ? errand.send() : this.notSent(line);
    sent.then(
      (reply) => this.answered(errand, reply),
      (error: unknown) => this.refused(errand, error),
    );
  }

  /** Calls `done` when every command that was sent has been written to its socket. */
  whenWritten(done: () => void): void {
    if (this.connections.writesNextTurn) this.clock.nextTurn(done);
    else done();
  }

  /** The errands that were sent and are not answered yet. */
  underway(): readonly Errand[] {
    return this.awaited.all();
  }

  /** Called when the deadline of a call has passed, or its connection was given up. */
  private unanswered(errand: Errand, error: unknown): void {
    errand.isGivenUp = true;
    // A call with a shorter deadline than usual, for a short lease, is no sign of an outage.
    if (errand.timeoutMs === undefined || errand.timeoutMs >= this.timeoutMs) this.outage.failed(reasonOf(error));
    this.fail(errand, error);
  }

  private answered(errand: Errand, reply: unknown): void {
    this.awaited.heard(errand);
    if (this.outage.since !== undefined) this.outage.answered(errand.what);
    // An answer after the deadline is passed on too, although its caller has got an error: it may say something about other calls.
    try {
      errand.answered(reply);
    } catch (error) {
      this.dropIfUnexpected(errand.line, error);
      this.fail(errand, error);
    }
  }

  /** Gives a connection up from which an answer came that was for no such request: the answers that follow may be for others as well. */
  dropIfUnexpected({ connection }: Line, error: unknown): void {
    if (error instanceof UnexpectedReplyError) connection.drop();
  }

  private refused(errand: Errand, error: unknown): void {
    // The script is not sent again for a call that was given up meanwhile, because its caller may have sent what comes next.
    if (!errand.sendSource || !isNoScript(error) || errand.index < 0) return this.ended(errand, error);
    // Trust counts from this second request, because the first one did nothing.
    errand.sentAt = this.clock.now();
    errand.sendSource().then(
      (reply) => this.answered(errand, reply),
      (again: unknown) => this.ended(errand, again),
    );
  }

  private ended(errand: Errand, error: unknown): void {
    this.awaited.heard(errand);
    const reason = reasonOf(error);
    // The server is no master any more, so a new connection is made, which finds the new one.
    if (NO_MASTER.test(reason)) errand.line.connection.drop();
    if (isReply(error)) this.outage.refused(reason);
    else this.outage.failed(reasonWith(error, this.connections.lastError));
    if (!errand.isGivenUp) this.fail(errand, error);
  }

  private fail(errand: Errand, error: unknown): void {
    errand.failed(this.failureOf(error, errand));
  }

  private notSent({ connection }: Line): Promise<never> {
    connection.start().catch(() => {});
    return Promise.reject(new Error(NOT_CONNECTED));
  }

  /** Resolves when the connection is open, because no client queues commands for it. */
  private async whenReady(connection: Connection): Promise<void> {
    if (connection.state.isOpen) return;
    await new Promise<void>((resolve) => {
      const done = connection.onOpen(() => {
        done();
        resolve();
      });
      connection.start().catch(() => {});
    });
  }
}

function closedError({ what, key, node }: Attempt): LockStoreError {
  const message = `Lock store on ${node}: ${what} was called after the store was closed.`;
  return new LockStoreError(message, { key, retryable: false, nodes: [{ node, reason: 'closed' }] });
}

/** A connection, with what is known of its silence. */
export interface Line {
  readonly connection: Connection;
  readonly state: ConnectionState;
  /** The connection is given up after a silence of this length, in ms. */
  readonly patienceMs: number;
  /** The connection is given up after a silence of this length, in ms, once the deadline of a command has passed in it. */
  readonly hasteMs: number;
  /** Since when it owes an answer and nothing has come from it, also when the deadline of that answer has passed; else undefined. */
  owesSince: number | undefined;
  /** How many of its answers are awaited. */
  out: number;
}

/**
 * The commands that were sent and not answered yet. Each has a deadline, because a connection that lost its peer neither answers nor
 * fails. A connection from which nothing comes at all is given up, so that a new one is made.
 *
 *     awaited ──▶ answered | refused | given up (its deadline has passed, or its connection is silent)
 */
class AwaitedAnswers {
  private readonly out: Errand[] = [];
  private timer: Timer | undefined;
  private timerAt = Infinity;

  constructor(
    private readonly clock: Clock,
    /** Called with a connection that is to be given up, and why. */
    private readonly silent: (connection: Connection, reason: Error) => void,
    /** Called with a command whose answer is not awaited any more, and the reason. */
    private readonly gaveUp: (awaited: Errand, reason: Error) => void,
  ) {}

  add(awaited: Errand): void {
    const { line, sentAt, deadline } = awaited;
    awaited.index = this.out.length;
    this.out.push(awaited);
    line.owesSince ??= sentAt;
    line.out += 1;
    // This is what nextLook() answers, without a call for every command.
    const at = Math.min(deadline, line.owesSince + line.patienceMs);
    if (at < this.timerAt) this.lookAt(at);
  }

  all(): readonly Errand[] {
    return this.out;
  }

  /** Notes that a command was answered or has failed. Answers come in order, so the silence of its connection counts anew from now. */
  heard(awaited: Errand): void {
    this.remove(awaited);
    const { line } = awaited;
    line.owesSince = line.out > 0 ? this.clock.now() : undefined;
  }

  /** Fails all commands with `reason`. */
  close(reason: Error): void {
    for (const awaited of this.out.splice(0)) {
      awaited.index = -1;
      this.gaveUp(awaited, reason);
    }
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timer = undefined;
  }

  /** Removes it from the list. The last one of the list takes its position. */
  private remove(awaited: Errand): void {
    if (awaited.index < 0) return;
    const last = this.out.pop()!;
    if (last !== awaited) {
      last.index = awaited.index;
      this.out[last.index] = last;
    }
    awaited.index = -1;
    awaited.line.out -= 1;
  }

  private lookAt(at: number): void {
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timerAt = at;
    // The look comes one turn after the timer, so that replies which came while this process was busy or stopped are read first.
    this.timer = this.clock.setTimer(() => this.clock.nextTurn(() => this.look()), at - this.clock.now());
  }

  private look(): void {
    this.timer = undefined;
    this.timerAt = Infinity;
    const now = this.clock.now();
    const silent = new Set(this.out.filter((awaited) => isSilent(awaited, now)).map(({ line }) => line));
    let next = Infinity;
    for (const awaited of [...this.out]) {
      if (awaited.deadline > now && !silent.has(awaited.line)) next = Math.min(next, nextLook(awaited));
      else this.giveUp(awaited, now);
    }
    for (const line of silent) {
      const reason = unanswered(now - (line.owesSince ?? now));
      line.owesSince = undefined;
      this.silent(line.connection, reason);
    }
    if (next < Infinity) this.lookAt(next);
  }

  private giveUp(awaited: Errand, now: number): void {
    this.remove(awaited);
    this.gaveUp(awaited, unanswered(now - awaited.sentAt));
  }
}

function unanswered(forMs: number): Error {
  return new Error(`no answer within ${Math.round(forMs)} ms`);
}

function nextLook({ deadline, line: { owesSince = Infinity, patienceMs } }: Errand): number {
  return Math.min(deadline, owesSince + patienceMs);
}

function isSilent({ deadline, line }: Errand, now: number): boolean {
  const { owesSince = Infinity, patienceMs, hasteMs } = line;
  return now >= owesSince + patienceMs || (now >= deadline && now - owesSince >= hasteMs);
}
