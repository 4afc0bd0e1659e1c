/**
 * Runs scripts: EVALSHA, then EVAL when the server does not know the script; each call until its deadline.
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import { AwaitedAnswers, type Line } from './awaited-answers.js';
import { redirectOf } from './cluster-redirect.js';
import { Command, ScriptRun, type Errand } from './errand.js';
import type { LuaScript } from './lua.generated.js';
import type { RedisClient, RedisConnections } from './redis-connection.js';
import type { Outage } from './outage.js';
import { isNoScript, NOT_CONNECTED, reasonOf, reasonWith, storeFailure, type Attempt } from './store-failure.js';

export type ScriptArgument = string | number;

/** What a script answers: integers and strings in a flat list, or one of them. */
export type ScriptReply = number | string | readonly ScriptReply[];

export interface ScriptCall {
  readonly script: LuaScript;
  readonly keys: readonly string[];
  readonly args: readonly ScriptArgument[];
  /** The lock this is about, for messages. */
  readonly key?: string | undefined;
  readonly timeoutMs?: number | undefined;
}

/** Makes the outcome from the reply; told between which local instants it was asked for and received. */
export type Decode<R, T> = (reply: R, sentAt: number, receivedAt: number) => T | Promise<T>;

/** What is late for some short deadline may only be slow; a connection that said nothing for so long is not. */
const LEAST_SILENCE_MS = 1_000;

export class ScriptRunner {
  /** The connection for all but what waits for replicas. */
  readonly line: Line;
  private readonly awaited: AwaitedAnswers<Errand>;
  /** Has more patience: to wait for replicas is to be silent. */
  private replicated: Line | undefined;
  private connecting: Promise<void> | undefined;
  private closed = false;

  constructor(
    private readonly connections: RedisConnections,
    private readonly clock: Clock,
    private readonly timeoutMs: number,
    private readonly outage: Outage,
  ) {
    this.awaited = new AwaitedAnswers(clock, (client) => connections.dropStalled(client), (errand, error) => this.unanswered(errand, error));
    // A Cluster has a connection for each node, and they watch for silence themselves.
    this.line = this.lineOf(connections.commands, connections.isCluster ? Infinity : connections.patienceMs);
  }

  /** Rejects with LockStoreError. */
  run<T>({ script, keys, args, key, timeoutMs }: ScriptCall, decode: Decode<ScriptReply, T>): Promise<T> {
    return new Promise<T>((resolve, failed) => {
      const answered = (reply: unknown, sentAt: number): void => resolve(decode(reply as ScriptReply, sentAt, this.clock.now()));
      this.perform(new ScriptRun(this.line, script, keys, args, key, timeoutMs, answered, failed));
    });
  }

  /** Runs a script that writes, and then waits for replicas: the reply of both. */
  runAcknowledged<T>(call: ScriptCall, replicas: number, decode: (reply: ScriptReply, acknowledged: number, sentAt: number) => T): Promise<T> {
    const { script, keys, args, key, timeoutMs = this.timeoutMs } = call;
    const line = (this.replicated ??= this.lineOf(this.connections.replicated, this.timeoutMs));
    const { client } = line;
    const until = this.clock.now() + timeoutMs;
    // One pipeline, so that on a Cluster both go to the node of the slot.
    const together = async (on: RedisClient, asking: boolean) => {
      const pipeline = asking ? on.pipeline().asking() : on.pipeline();
      pipeline.eval(script.source, keys.length, ...keys, ...args).call('WAIT', replicas, Math.max(1, Math.floor(0.8 * timeoutMs)));
      const replies = ((await pipeline.exec()) ?? []).slice(asking ? 1 : 0);
      for (const [error] of replies) if (error !== null) throw error;
      return replies.map(([, reply]) => reply);
    };
    const send = async () => {
      await this.whenReady(client);
      if (this.clock.now() >= until) throw new Error('not connected in time'); // nobody waits for it any more
      try {
        return await together(client, false);
      } catch (error) {
        const redirect = redirectOf(client, error);
        if (redirect === undefined) throw error;
        return together(redirect.node, redirect.asking);
      }
    };
    return new Promise<T>((resolve, failed) => {
      const answered = (both: unknown, sentAt: number): void => {
        const [reply, acknowledged] = both as [ScriptReply, number];
        resolve(decode(reply, acknowledged, sentAt));
      };
      this.perform(new Command(line, script.name, key, timeoutMs, send, answered, failed));
    });
  }

  /** Sends anything else under the same deadline and the same kind of error. */
  command<T>(what: string, send: (client: RedisClient) => Promise<T>): Promise<T> {
    return this.timed(what, send, (reply) => reply);
  }

  /** The same, told between which local instants it was asked for and received. */
  timed<R, T>(what: string, send: (client: RedisClient) => Promise<R>, decode: Decode<R, T>): Promise<T> {
    return new Promise<T>((resolve, failed) => {
      const answered = (reply: unknown, sentAt: number): void => resolve(decode(reply as R, sentAt, this.clock.now()));
      this.perform(new Command(this.line, what, undefined, undefined, () => send(this.line.client), answered, failed));
    });
  }

  /** The error of a call that is one of many in a command, for what was said of it alone. */
  failureOf(error: unknown, what: string, key: string | undefined, redisKeys: readonly string[] | undefined): LockStoreError {
    return storeFailure(error, { what, key, node: this.connections.node, redisKeys }, this.connections.lastError);
  }

  close(): void {
    this.closed = true;
    this.outage.close();
    this.awaited.close(new Error('the store was closed'));
  }

  private lineOf(client: RedisClient, patienceMs: number): Line {
    // On a Cluster one node that is late says nothing of the others.
    const hasteMs = patienceMs === Infinity ? Infinity : Math.min(this.timeoutMs, LEAST_SILENCE_MS);
    return { client, connection: this.connections.stateOf(client), patienceMs, hasteMs, owesSince: undefined, out: 0 };
  }

  /**
   * Sends it, and tells it its fate: an answer, or the error that it ended with. `askedAt`: a local instant not later than
   * its sending.
   */
  perform(errand: Errand, askedAt = this.clock.now()): void {
    const { line } = errand;
    if (this.closed) return errand.failed(closedError({ what: errand.what, key: errand.key, node: this.connections.node }));
    errand.sentAt = askedAt;
    errand.deadline = askedAt + (errand.timeoutMs ?? this.timeoutMs);
    this.awaited.add(errand);
    const sent = line.connection.isOpen || line === this.replicated ? errand.send() : this.notSent(line);
    sent.then(
      (reply) => this.answered(errand, reply),
      (error: unknown) => this.refused(errand, error),
    );
  }

  /** What was sent and is not answered yet. */
  underway(): readonly Errand[] {
    return this.awaited.all();
  }

  /** Nobody waits for the answer any more. */
  private unanswered(errand: Errand, error: unknown): void {
    errand.isGivenUp = true;
    // What a short lease cannot wait for says nothing of the server.
    if (errand.timeoutMs === undefined || errand.timeoutMs >= this.timeoutMs) this.outage.failed(reasonOf(error));
    this.fail(errand, error);
  }

  private answered(errand: Errand, reply: unknown): void {
    this.awaited.heard(errand);
    if (errand.line.connection.isAstray) return this.fail(errand, new Error('it came from another database'));
    if (this.outage.since !== undefined) this.outage.answered(errand.what);
    // Also when it is late, and whoever waited for it was told that it failed: it may still tell something.
    try {
      errand.answered(reply);
    } catch (error) {
      this.fail(errand, error);
    }
  }

  private refused(errand: Errand, error: unknown): void {
    // Not for one that was given up meanwhile: what follows it may have been sent already.
    if (!errand.sendSource || !isNoScript(error) || errand.index < 0) return this.ended(errand, error);
    // What is done is done by this second request: the first one did nothing.
    errand.sentAt = this.clock.now();
    errand.sendSource().then(
      (reply) => this.answered(errand, reply),
      (again: unknown) => this.ended(errand, again),
    );
  }

  private ended(errand: Errand, error: unknown): void {
    this.awaited.heard(errand);
    if (isReply(error)) this.outage.refused(reasonOf(error));
    else this.outage.failed(reasonWith(error, this.connections.lastError));
    if (!errand.isGivenUp) this.fail(errand, error);
  }

  private fail(errand: Errand, error: unknown): void {
    errand.failed(this.failureOf(error, errand.what, errand.key, errand.redisKeys));
  }

  private notSent({ client }: Line): Promise<never> {
    if (client.status === 'wait') client.connect().catch(() => {});
    return Promise.reject(new Error(NOT_CONNECTED));
  }

  /** A connection made on demand queues nothing, so its first users wait together until it is there. */
  private whenReady(client: RedisClient): Promise<void> {
    if (this.connections.isOpen(client)) return Promise.resolve();
    this.connecting ??= new Promise((resolve) => {
      const done = this.connections.onOpen(client, () => {
        done();
        this.connecting = undefined;
        resolve();
      });
      if (client.status === 'wait') client.connect().catch(() => {});
    });
    return this.connecting;
  }
}

function isReply(error: unknown): boolean {
  return (error as { name?: unknown }).name === 'ReplyError';
}

function closedError({ what, key, node }: Attempt): LockStoreError {
  const message = `Lock store on ${node}: ${what} was asked for after it was closed.`;
  return new LockStoreError(message, { key, retryable: false, nodes: [{ node, reason: 'closed' }] });
}
