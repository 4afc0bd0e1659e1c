/**
 * Runs scripts: EVALSHA, then EVAL when the server does not know the script. Each call has a deadline of its own, since
 * a connection that lost its peer answers nothing and says nothing.
 */
import type { Clock, Timer } from '../../core/clock.js';
import { LockStoreError } from '../../core/errors.js';
import type { LuaScript } from './lua.generated.js';
import type { RedisClient, RedisConnections } from './redis-connection.js';
import { isNoScript, storeFailure, type Attempt } from './store-failure.js';

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

/** A connection that says nothing for so long, though it was asked, is given up. */
const LONGEST_SILENCE_MS = 1_000;

/** Something to send, and what to do with its fate. */
interface Errand {
  readonly client: RedisClient;
  readonly what: string;
  readonly key?: string | undefined;
  readonly timeoutMs?: number | undefined;
  send(): Promise<unknown>;
  /** Sends the script itself, to a server that does not know it. */
  sendSource?(): Promise<unknown>;
}

interface Pending {
  /** Where it stands among the pending ones; -1 when it is not one of them any more. */
  place: number;
  readonly client: RedisClient;
  readonly sentAt: number;
  readonly deadline: number;
  fail(error: unknown): void;
}

export class ScriptRunner {
  private readonly pending: Pending[] = [];
  private timer: Timer | undefined;
  private timerAt = Infinity;
  /** Since when a connection owes an answer to a call that was given up, while nothing at all has come from it. */
  private readonly silentSince = new Map<RedisClient, number>();
  private connecting: Promise<void> | undefined;
  private corked = false;
  private closed = false;

  constructor(
    private readonly connections: RedisConnections,
    private readonly clock: Clock,
    private readonly timeoutMs: number,
  ) {}

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
    const client = this.connections.commands;
    const send = () => {
      this.writeTogether();
      return client.evalsha(script.sha1, keys.length, ...keys, ...args);
    };
    const sendSource = () => client.eval(script.source, keys.length, ...keys, ...args);
    this.perform({ client, what: script.name, key, timeoutMs, send, sendSource }, decode, resolve, reject);
  }

  /** Runs a script that writes, and then waits for replicas: the reply of both. */
  runAcknowledged<T>(call: ScriptCall, replicas: number, decode: (reply: ScriptReply, acknowledged: number, sentAt: number) => T): Promise<T> {
    const { script, keys, args, key, timeoutMs = this.timeoutMs } = call;
    const client = this.connections.replicated;
    const send = async () => {
      await this.whenReady(client);
      // One pipeline, so that on a Cluster both go to the node of the slot.
      const replies = await client
        .pipeline()
        .eval(script.source, keys.length, ...keys, ...args)
        .call('WAIT', replicas, Math.max(1, Math.floor(0.8 * timeoutMs)))
        .exec();
      for (const [error] of replies ?? []) if (error !== null) throw error;
      return (replies ?? []).map(([, reply]) => reply);
    };
    const both = ([reply, acknowledged]: [ScriptReply, number], sentAt: number) => decode(reply, acknowledged, sentAt);
    return new Promise<T>((resolve, reject) => this.perform({ client, what: script.name, key, timeoutMs, send }, both, resolve, reject));
  }

  /** Sends anything else under the same deadline and the same kind of error. */
  command<T>(what: string, send: (client: RedisClient) => Promise<T>): Promise<T> {
    return this.timed(what, send, (reply) => reply);
  }

  /** The same, told between which local instants it was asked for and received. */
  timed<R, T>(what: string, send: (client: RedisClient) => Promise<R>, decode: Decode<R, T>): Promise<T> {
    const client = this.connections.commands;
    return new Promise<T>((resolve, reject) => this.perform({ client, what, send: () => send(client) }, decode, resolve, reject));
  }

  close(): void {
    this.closed = true;
    for (const pending of this.pending.splice(0)) {
      pending.place = -1;
      pending.fail(new Error('the store was closed'));
    }
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timer = undefined;
  }

  private perform<R, T>(
    errand: Errand,
    decode: Decode<R, T>,
    resolve: (value: T | Promise<T>) => void,
    reject: (error: LockStoreError) => void,
  ): void {
    const { client, what, key, timeoutMs = this.timeoutMs } = errand;
    const attempt: Attempt = { what, key, node: this.connections.node };
    if (this.closed) return reject(closedError(attempt));
    const sentAt = this.clock.now();
    const fail = (error: unknown) => reject(storeFailure(error, attempt, this.connections.lastError));
    const pending: Pending = { place: this.pending.length, client, sentAt, deadline: sentAt + timeoutMs, fail };
    this.pending.push(pending);
    this.watch(pending.deadline);
    const answered = (reply: unknown) => {
      this.remove(pending);
      this.silentSince.delete(client);
      try {
        resolve(decode(reply as R, sentAt, this.clock.now()));
      } catch (error) {
        fail(error);
      }
    };
    const refused = (error: unknown) => {
      this.remove(pending);
      fail(error);
    };
    errand.send().then(answered, (error: unknown) => {
      // Not for one that was given up meanwhile: what follows it may have been sent already.
      if (errand.sendSource && isNoScript(error) && pending.place >= 0) errand.sendSource().then(answered, refused);
      else refused(error);
    });
  }

  /** The last one takes its place. */
  private remove(pending: Pending): void {
    if (pending.place < 0) return;
    const last = this.pending.pop()!;
    if (last !== pending) {
      last.place = pending.place;
      this.pending[last.place] = last;
    }
    pending.place = -1;
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
    if (client.status === 'ready') return Promise.resolve();
    this.connecting ??= new Promise((resolve) => {
      client.once('ready', () => {
        this.connecting = undefined;
        resolve();
      });
      if (client.status === 'wait') client.connect().catch(() => {});
    });
    return this.connecting;
  }

  private watch(deadline: number): void {
    if (deadline >= this.timerAt) return;
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timerAt = deadline;
    // In the turn after, so that replies which came while this process was busy or stopped are read first.
    this.timer = this.clock.setTimer(() => this.clock.nextTurn(() => this.sweep()), deadline - this.clock.now());
  }

  private sweep(): void {
    this.timer = undefined;
    this.timerAt = Infinity;
    const now = this.clock.now();
    let next = Infinity;
    for (const pending of [...this.pending]) {
      if (pending.deadline > now) next = Math.min(next, pending.deadline);
      else this.expire(pending, now);
    }
    if (next < Infinity) this.watch(next);
  }

  private expire(pending: Pending, now: number): void {
    const { client, sentAt } = pending;
    this.remove(pending);
    const since = this.silentSince.get(client) ?? sentAt;
    this.silentSince.set(client, since);
    if (now - since >= Math.min(this.timeoutMs, LONGEST_SILENCE_MS)) {
      this.silentSince.delete(client);
      this.connections.dropStalled(client);
    }
    pending.fail(new Error(`no answer within ${Math.round(now - pending.sentAt)} ms`));
  }
}

function closedError({ what, key, node }: Attempt): LockStoreError {
  const message = `Lock store on ${node}: ${what} was asked for after it was closed.`;
  return new LockStoreError(message, { key, retryable: false, nodes: [{ node, reason: 'closed' }] });
}
