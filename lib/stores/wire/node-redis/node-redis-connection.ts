/**
 * A connection to one server, made anew whenever it ends: to an address that is fixed, or that a Sentinel names anew each time.
 *
 *     waiting ──start()──▶ connecting ──(the server has answered)──▶ open ──▶ pause ──▶ connecting …
 *                               └────────(refused, or too late)────────────────▲
 */
import { EventEmitter } from 'node:events';
import type { Clock, Timer } from '../../../core/port/clock.js';
import { messageOf } from '../../../core/port/errors.js';
import { CONNECTION_NAME, connectingMs, NO_MASTER, reconnectPause, type Connection, type EvalAndWait, type Sender, type Subscriber } from '../connections.js';
import { askForFlushes, FLUSHES } from '../flush-news.js';
import { isReply, NOT_CONNECTED } from '../store-failure.js';
import { forcedOptions, type ClientSource, type NodeRedisClient } from './node-redis-client.js';

/** Gives the source of clients of the server that is to be connected to now. Rejects when it is not known. */
export type Locate = () => Promise<ClientSource>;

export interface Needs {
  readonly clock: Clock;
  /** How long a command may take, in ms (commandTimeoutMs). */
  readonly timeoutMs: number;
}

/** The words of node-redis for a server that could not be reached in time. */
const TIMEOUT = /^Connection timeout$/;

/** One client of node-redis, from connecting to its end. */
export class LiveConnection {
  private client: NodeRedisClient | undefined;
  private readonly socket = new AbortController();
  private isOpen = false;
  private hasEnded = false;
  /** What ended it while it was connecting. */
  private reason: Error | undefined;

  constructor(
    private readonly source: ClientSource,
    private readonly needs: Needs,
    /** Called once, when the connection has ended after it was open. */
    private readonly ended: (error: Error) => void = () => {},
    /** How long the server may take for each step of connecting, in ms. */
    private readonly stepMs = connectingMs(needs.timeoutMs),
  ) {}

  /** Rejects with what the client or the server says. A server that accepts connections and answers nothing is given up. */
  async open(): Promise<NodeRedisClient> {
    const { source, stepMs, needs: { clock, timeoutMs } } = this;
    const login = await source.login?.(clock, timeoutMs);
    if (this.hasEnded) throw this.reason ?? new Error('the connection was closed');
    const client = source.make(forcedOptions({ ...source.given, ...login }, stepMs, this.socket.signal));
    this.client = client;
    client.on('error', (error) => {
      if (!this.isOpen) this.reason ??= error;
      else this.finish(error);
    });
    const timers = new Set<Timer>();
    client.on('connect', () => {
      timers.add(clock.setTimer(() => this.end(new Error('connect ETIMEDOUT')), stepMs));
    });
    try {
      await client.connect();
      // Operators find the connection in CLIENT LIST by its name. An error reply is an answer too.
      await client.sendCommand(['CLIENT', 'SETNAME', CONNECTION_NAME]).catch((error: unknown) => {
        if (!isReply(error)) throw error;
      });
      if (this.hasEnded) throw new Error('the connection was closed');
      this.isOpen = true;
      return client;
    } catch (error) {
      const reason = this.reason ?? error;
      this.end();
      throw TIMEOUT.test(messageOf(reason)) ? new Error('connect ETIMEDOUT') : reason;
    } finally {
      for (const timer of timers) clock.clearTimer(timer);
    }
  }

  /** Ends the connection. `reason` is what {@link open} rejects with, if it has not resolved. */
  end(reason?: Error): void {
    this.reason ??= reason;
    this.finish(reason ?? new Error('Connection is closed.'));
  }

  private finish(error: Error): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    // The owner is told before the commands on the way fail, so that no command follows them into this connection.
    if (this.isOpen) this.ended(error);
    this.socket.abort();
    try {
      this.client?.destroy();
    } catch {
      // Version 5 throws when the socket has ended already.
    }
  }
}

/** Sends each command as the list of its words. */
export class WordSender implements Sender {
  constructor(private readonly send: (words: string[]) => Promise<unknown>) {}

  evalsha(sha1: string, numberOfKeys: number, ...rest: (string | number)[]): Promise<unknown> {
    return this.call('EVALSHA', sha1, numberOfKeys, ...rest);
  }

  eval(source: string, numberOfKeys: number, ...rest: (string | number)[]): Promise<unknown> {
    return this.call('EVAL', source, numberOfKeys, ...rest);
  }

  call(...words: (string | number)[]): Promise<unknown> {
    return this.send(words.map(String));
  }
}

export class NodeRedisConnection implements Connection {
  readonly state = { isOpen: false, isAstray: false };
  readonly sender: Sender = new WordSender((words) => this.send(words));
  /** The source of the server that the present connection leads to. */
  source: ClientSource | undefined;
  private live: LiveConnection | undefined;
  /** The client of a connection that is open. */
  private client: NodeRedisClient | undefined;
  private readonly events = new EventEmitter().setMaxListeners(0);
  private starting: Promise<void> | undefined;
  private pause: Timer | undefined;
  /** Lets the process end, which is kept alive without a connection as it is by the socket of one. */
  private letGo: (() => void) | undefined;
  private closed = false;

  constructor(
    private readonly locate: Locate,
    private readonly needs: Needs,
    /** The silence of a node of a Cluster, which nobody else notices. */
    private readonly silence?: Silence,
  ) {}

  start(): Promise<void> {
    return (this.starting ??= this.connect());
  }

  /** Commands that are sent in one turn of the event loop follow each other without another in between. */
  send(words: string[]): Promise<unknown> {
    const { client, silence } = this;
    if (client === undefined) return Promise.reject(new Error(NOT_CONNECTED));
    silence?.asked();
    const sent = client.sendCommand(words);
    sent.then(silence?.heard, this.refused);
    return sent;
  }

  evalAndWait({ source, keys, args, replicas, waitMs }: EvalAndWait): Promise<readonly [unknown, unknown]> {
    return Promise.all([this.sender.eval(source, keys.length, ...keys, ...args), this.sender.call('WAIT', replicas, waitMs)]);
  }

  /** Leads to the server of the present connection, which a Sentinel might name differently by now. */
  here(): Locate {
    const { source } = this;
    return this.state.isOpen && source !== undefined ? () => Promise.resolve(source) : this.locate;
  }

  drop(): void {
    if (this.state.isOpen) this.live?.end();
  }

  onOpen(listener: () => void): () => void {
    this.events.on('open', listener);
    return () => void this.events.off('open', listener);
  }

  onEnd(listener: () => void): void {
    this.events.on('end', listener);
  }

  onError(listener: (error: Error) => void): () => void {
    this.events.on('problem', listener);
    return () => void this.events.off('problem', listener);
  }

  close(): void {
    this.closed = true;
    if (this.pause !== undefined) this.needs.clock.clearTimer(this.pause);
    this.silence?.close();
    this.live?.end();
    this.needsNoProcess();
  }

  private needsNoProcess(): void {
    this.letGo?.();
    this.letGo = undefined;
  }

  private async connect(): Promise<void> {
    if (this.closed) return;
    try {
      const source = await this.locate();
      if (this.closed) return;
      const live = new LiveConnection(source, this.needs, (error) => this.live === live && this.lost(error, reconnectPause(true)));
      this.live = live;
      this.source = source;
      this.client = await live.open();
      this.state.isOpen = true;
      this.needsNoProcess();
      this.events.emit('open');
    } catch (error) {
      this.lost(error as Error, reconnectPause(false));
      throw error;
    }
  }

  private lost(error: Error, retryMs: number): void {
    const { clock } = this.needs;
    this.live = undefined;
    this.client = undefined;
    this.state.isOpen = false;
    this.silence?.reset();
    if (!this.closed) {
      this.events.emit('problem', error);
      if (this.pause !== undefined) clock.clearTimer(this.pause);
      this.letGo ??= clock.keepAlive();
      // connect() tells its error to those who listen.
      this.pause = clock.setTimer(() => void this.connect().catch(() => {}), retryMs);
    }
    this.events.emit('end');
  }

  /** The server became a replica, so a new connection is made, which finds the new master. */
  private readonly refused = (error: unknown): void => {
    this.silence?.heard();
    if (NO_MASTER.test(String((error as { message?: unknown }).message))) this.drop();
  };
}

/** Notices that a node of a Cluster owes answers and says nothing: the connection to it is given up then, and the others serve on. */
export class Silence {
  private owed = 0;
  private since = 0;
  private timer: Timer | undefined;

  constructor(
    private readonly clock: Clock,
    /** The connection is given up after a silence of this length, in ms. */
    private readonly patienceMs: number,
    private readonly giveUp: () => void,
  ) {}

  asked(): void {
    if (this.owed++ === 0) this.since = this.clock.now();
    if (this.timer === undefined) this.look(this.patienceMs);
  }

  readonly heard = (): void => {
    if (this.owed > 0) this.owed -= 1;
    this.since = this.clock.now();
  };

  /** The connection has ended: it owes nothing any more. */
  reset(): void {
    this.owed = 0;
  }

  close(): void {
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timer = undefined;
  }

  /** The look comes one turn after the timer, so that replies which came while this process was busy are read first. */
  private look(afterMs: number): void {
    this.timer = this.clock.setTimer(() => this.clock.nextTurn(() => this.judge()), afterMs);
  }

  private judge(): void {
    this.timer = undefined;
    if (this.owed === 0) return;
    const leftMs = this.since + this.patienceMs - this.clock.now();
    if (leftMs > 0) this.look(leftMs);
    else this.giveUp();
  }
}

/** A connection for messages by node-redis. */
export class NodeRedisSubscriber implements Subscriber {
  private live: LiveConnection | undefined;
  private closed = false;
  private ended: () => void = () => {};

  constructor(
    private readonly locate: Locate,
    private readonly needs: Needs,
  ) {}

  async open(channels: readonly string[], hear: (message: string) => void, flushed?: () => void): Promise<void> {
    try {
      const source = await this.locate();
      if (this.closed) throw new Error('the connection was closed');
      const live = new LiveConnection(source, this.needs, () => this.ended());
      this.live = live;
      const client = await live.open();
      const isTold = flushed !== undefined && (await askForFlushes((...command) => client.sendCommand(command)));
      // It is a subscription of its own, because a user may lack the right to this channel only.
      if (isTold) client.subscribe([FLUSHES], flushed).catch(() => undefined);
      await client.subscribe([...channels], hear);
    } catch (error) {
      this.ended();
      throw error;
    }
  }

  onEnd(listener: () => void): void {
    this.ended = () => {
      this.ended = () => {};
      listener();
    };
  }

  drop(): void {
    this.live?.end(new Error('no answer'));
  }

  close(): void {
    this.closed = true;
    this.live?.end();
  }
}
