/**
 * Runs scripts: EVALSHA, then EVAL when the server does not know the script; each call until its deadline.
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import { AwaitedAnswers, type Line } from './awaited-answers.js';
import { redirectOf } from './cluster-redirect.js';
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

/** Something to send, and what to do with its fate. */
interface Errand {
  readonly line: Line;
  readonly what: string;
  readonly key?: string | undefined;
  readonly redisKeys?: readonly string[] | undefined;
  readonly timeoutMs?: number | undefined;
  send(): Promise<unknown>;
  /** Sends the script itself, to a server that does not know it. */
  sendSource?(): Promise<unknown>;
}

export class ScriptRunner {
  private readonly awaited: AwaitedAnswers;
  private readonly line: Line;
  /** Has more patience: to wait for replicas is to be silent. */
  private replicated: Line | undefined;
  private connecting: Promise<void> | undefined;
  private corked = false;
  private closed = false;

  constructor(
    private readonly connections: RedisConnections,
    private readonly clock: Clock,
    private readonly timeoutMs: number,
    private readonly outage: Outage,
  ) {
    this.awaited = new AwaitedAnswers(clock, (client) => connections.dropStalled(client));
    // A Cluster has a connection for each node, and they watch for silence themselves.
    this.line = this.lineOf(connections.commands, connections.isCluster ? Infinity : connections.patienceMs);
  }

  /** Rejects with LockStoreError. */
  run<T>(call: ScriptCall, decode: Decode<ScriptReply, T>): Promise<T> {
    return new Promise<T>((resolve, reject) => this.start(call, decode, resolve, reject));
  }

  /** The same without a promise of its own, for whoever has one already. */
  start<T>(
    { script, keys, args, key, timeoutMs }: ScriptCall,
    decode: Decode<ScriptReply, T>,
    resolve: (value: T | Promise<T>) => void,
    reject: (error: LockStoreError) => void,
  ): void {
    const { line } = this;
    const { client } = line;
    const send = () => {
      this.writeTogether();
      return client.evalsha(script.sha1, keys.length, ...keys, ...args);
    };
    const sendSource = () => client.eval(script.source, keys.length, ...keys, ...args);
    this.perform({ line, what: script.name, key, redisKeys: keys, timeoutMs, send, sendSource }, decode, resolve, reject);
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
    const both = ([reply, acknowledged]: [ScriptReply, number], sentAt: number) => decode(reply, acknowledged, sentAt);
    return new Promise<T>((resolve, reject) => this.perform({ line, what: script.name, key, timeoutMs, send }, both, resolve, reject));
  }

  /** Sends anything else under the same deadline and the same kind of error. */
  command<T>(what: string, send: (client: RedisClient) => Promise<T>): Promise<T> {
    return this.timed(what, send, (reply) => reply);
  }

  /** The same, told between which local instants it was asked for and received. */
  timed<R, T>(what: string, send: (client: RedisClient) => Promise<R>, decode: Decode<R, T>): Promise<T> {
    const { line } = this;
    return new Promise<T>((resolve, reject) => this.perform({ line, what, send: () => send(line.client) }, decode, resolve, reject));
  }

  /** The error of a call that is one of many in a command, for what was said of it alone. */
  failureOf(error: unknown, { script, key, keys }: ScriptCall): LockStoreError {
    return storeFailure(error, { what: script.name, key, node: this.connections.node, redisKeys: keys });
  }

  close(): void {
    this.closed = true;
    this.outage.close();
    this.awaited.close(new Error('the store was closed'));
  }

  private lineOf(client: RedisClient, patienceMs: number): Line {
    // On a Cluster one node that is late says nothing of the others.
    const hasteMs = patienceMs === Infinity ? Infinity : Math.min(this.timeoutMs, LEAST_SILENCE_MS);
    return { client, patienceMs, hasteMs, owesSince: undefined, out: 0 };
  }

  private perform<R, T>(
    errand: Errand,
    decode: Decode<R, T>,
    resolve: (value: T | Promise<T>) => void,
    reject: (error: LockStoreError) => void,
  ): void {
    const { line, what, key, redisKeys, timeoutMs = this.timeoutMs } = errand;
    const attempt: Attempt = { what, key, node: this.connections.node, redisKeys };
    if (this.closed) return reject(closedError(attempt));
    const sentAt = this.clock.now();
    const fail = (error: unknown) => reject(storeFailure(error, attempt, this.connections.lastError));
    const unanswered = (error: unknown) => {
      // What a short lease cannot wait for says nothing of the server.
      if (timeoutMs >= this.timeoutMs) this.outage.failed(reasonOf(error));
      fail(error);
    };
    const awaited = this.awaited.add(line, sentAt, sentAt + timeoutMs, unanswered);
    const answered = (reply: unknown) => {
      const receivedAt = this.clock.now();
      this.awaited.heard(awaited, receivedAt);
      if (this.connections.isAstray(line.client)) return fail(new Error('it came from another database'));
      this.outage.answered(what);
      try {
        resolve(decode(reply as R, sentAt, receivedAt));
      } catch (error) {
        fail(error);
      }
    };
    const refused = (error: unknown) => {
      this.awaited.heard(awaited, this.clock.now());
      if (isReply(error)) this.outage.refused(reasonOf(error));
      else this.outage.failed(reasonWith(error, this.connections.lastError));
      fail(error);
    };
    this.sent(errand).then(answered, (error: unknown) => {
      // Not for one that was given up meanwhile: what follows it may have been sent already.
      if (errand.sendSource && isNoScript(error) && awaited.place >= 0) errand.sendSource().then(answered, refused);
      else refused(error);
    });
  }

  private sent({ line, send }: Errand): Promise<unknown> {
    const { client } = line;
    if (line === this.replicated || this.connections.isOpen(client)) return send();
    if (client.status === 'wait') client.connect().catch(() => {});
    return Promise.reject(new Error(NOT_CONNECTED));
  }

  /** What is sent in one turn of the event loop leaves in one packet. */
  private writeTogether(): void {
    const { commands } = this.connections;
    if (this.corked || !('stream' in commands) || commands.status !== 'ready') return;
    const { stream } = commands;
    this.corked = true;
    stream.cork();
    process.nextTick(() => {
      this.corked = false;
      stream.uncork();
    });
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
