/**
 * A connection to one server, made anew whenever it ends: to an address that is fixed, or that a Sentinel names anew each time. Each
 * has a client of its own, of ioredis or of node-redis, from connecting to its end. Such a client never reconnects: what it does then
 * differs between packages and versions, and it cannot be told to leave a server that has stopped answering.
 *
 *     waiting ──start()──▶ connecting ──(the server has answered)──▶ open ──▶ pause ──▶ connecting …
 *                               └────────(refused, or too late)────────────────▲
 */
import { EventEmitter } from 'node:events';
import type { Clock, Timer } from '../../core/port/clock.js';
import { messageOf } from '../../core/port/errors.js';
import { CONNECTION_NAME, connectingMs, reconnectPause, type Address, type Connection, type EvalAndWait, type Sender, type Subscriber } from './connections.js';
import type { AskLogin, Login } from './redis-target.js';
import { isReply, NOT_CONNECTED } from './store-failure.js';

/** A client of a package. */
export interface Client {
  readonly sender: Sender;
  /** Connects. Rejects with what the client or the server says. */
  connect(): Promise<unknown>;
  subscribe(channels: readonly string[], hear: (message: string) => void): Promise<unknown>;
  /** Ends the connection, or what connects, at once. */
  destroy(): void;
  /** Of a client that writes each command by itself: what it sends until {@link uncork} is one write. */
  cork?(): void;
  uncork?(): void;
}

/** What a client is made for. */
export interface Making {
  /** In place of the address that its options have. */
  readonly address: Partial<Address>;
  /** In place of the login that its options have. */
  readonly login: Login | undefined;
  /** How long connecting may take, in ms. */
  readonly connectMs: number;
  /** Called when the socket is connected. */
  connected(): void;
  /** Called with an error of the connection. */
  failed(error: Error): void;
  /** Called when the connection has ended. */
  ended(): void;
}

/** Makes clients of one server. */
export interface Source {
  /** In place of the address that its options have. */
  readonly address: Partial<Address>;
  /** Asked for the login of each connection, if the user gave a function for it. */
  readonly login?: AskLogin | undefined;
  readonly make: (how: Making) => Client;
}

/** Gives the source of clients of the server that is to be connected to now. Rejects when it is not known. */
export type Locate = () => Promise<Source>;

export interface Needs {
  readonly clock: Clock;
  /** How long a command may take, in ms (commandTimeoutMs). */
  readonly timeoutMs: number;
}

/** The words of node-redis for a server that could not be reached in time. */
const TIMEOUT = /^Connection timeout$/;

const REFUSED_LOGIN = /\b(WRONGPASS|NOAUTH|ERR AUTH|ERR invalid password)\b/;
/** Not an error for an operator: the function is asked again, and may know the new password a moment later than the server. */
const LOGIN_OF_FUNCTION_REFUSED = 'the server refused the login that the function gave';

/** One client, from connecting to its end. */
export class LiveConnection {
  private client: Client | undefined;
  private isOpen = false;
  private hasEnded = false;
  /** The last error of the connection, or what ended it while it was connecting. */
  private reason: Error | undefined;

  constructor(
    private readonly source: Source,
    private readonly needs: Needs,
    /** Called once, when the connection has ended after it was open. */
    private readonly ended: (error: Error) => void = () => {},
    /** How long the server may take for each step of connecting, in ms. */
    private readonly stepMs = connectingMs(needs.timeoutMs),
  ) {}

  /** Rejects with what the client or the server says. A server that accepts connections and answers nothing is given up. */
  async open(): Promise<Client> {
    const { source, stepMs, needs: { clock, timeoutMs } } = this;
    const timers: Timer[] = [];
    try {
      const login = await source.login?.(clock, timeoutMs);
      if (this.hasEnded) throw new Error('the connection was closed');
      const client = (this.client = source.make({
        address: source.address,
        login,
        connectMs: stepMs,
        connected: () => timers.push(clock.setTimer(() => this.end(new Error(`the server takes connections, but gave no answer within ${stepMs} ms`)), stepMs)),
        // What a client says of a connection that was ended here hides why.
        failed: (error) => (this.reason = this.hasEnded ? (this.reason ?? error) : error),
        ended: () => this.isOpen && this.finish(this.reason ?? new Error('Connection is closed.')),
      }));
      await client.connect();
      // Operators find the connection in CLIENT LIST by its name. Some versions of ioredis are connected before the server has answered
      // to the password and the database; answers come in order, so both are known with this one. An error reply is an answer too.
      await client.sender.call('client', 'SETNAME', CONNECTION_NAME).catch((error: unknown) => {
        if (!isReply(error)) throw error;
      });
      // ioredis goes on in database 0, where the locks are not, when a server refuses another one.
      if (this.reason !== undefined || this.hasEnded) throw new Error('the connection was closed');
      this.isOpen = true;
      return client;
    } catch (error) {
      const reason = this.reason ?? error;
      this.end();
      if (source.login !== undefined && REFUSED_LOGIN.test(messageOf(reason))) throw new Error(LOGIN_OF_FUNCTION_REFUSED);
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
    this.client?.destroy();
  }
}

/** Sends each command as the list of its words, for a client that has no methods of the same names. */
export function senderOf(send: (words: string[]) => Promise<unknown>): Sender {
  const call = (...words: (string | number)[]): Promise<unknown> => send(words.map(String));
  return {
    call,
    evalsha: (sha1, numberOfKeys, ...rest) => call('EVALSHA', sha1, numberOfKeys, ...rest),
    eval: (source, numberOfKeys, ...rest) => call('EVAL', source, numberOfKeys, ...rest),
  };
}

const UNCONNECTED = senderOf(() => Promise.reject(new Error(NOT_CONNECTED)));

/** Who listens to a connection. */
export class Listened {
  protected readonly events = new EventEmitter().setMaxListeners(0);

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
}

export class ServerConnection extends Listened implements Connection {
  readonly state = { isOpen: false };
  sender = UNCONNECTED;
  /** The source of the server that the present connection leads to. */
  source: Source | undefined;
  private live: LiveConnection | undefined;
  private client: Client | undefined;
  private starting: Promise<void> | undefined;
  private pause: Timer | undefined;
  /** Lets the process end, which is kept alive without a connection as it is by the socket of one. */
  private letGo: (() => void) | undefined;
  private closed = false;

  constructor(
    private readonly locate: Locate,
    private readonly needs: Needs,
  ) {
    super();
  }

  start(): Promise<void> {
    return (this.starting ??= this.connect());
  }

  /** Commands that are sent in one turn of the event loop follow each other without another in between. */
  evalAndWait({ source, keys, args, replicas, waitMs }: EvalAndWait): Promise<readonly [unknown, unknown]> {
    const { sender } = this;
    return Promise.all([sender.eval(source, keys.length, ...keys, ...args), sender.call('WAIT', replicas, waitMs)]);
  }

  /** Leads to the server of the present connection, which a Sentinel might name differently by now. */
  here(): Locate {
    const { source } = this;
    return this.state.isOpen && source !== undefined ? () => Promise.resolve(source) : this.locate;
  }

  cork(): void {
    this.client?.cork?.();
  }

  uncork(): void {
    this.client?.uncork?.();
  }

  drop(reason?: Error): void {
    if (this.state.isOpen) this.live?.end(reason);
  }

  /** Leaves the server that it leads to, or begins to lead to, unless that is the one at `to`. */
  leaveFor(to: Address): void {
    const { host, port } = this.source?.address ?? to;
    if (host !== to.host || port !== to.port) this.live?.end(new Error(`the master is now ${to.host}:${to.port}`));
  }

  close(): void {
    this.closed = true;
    if (this.pause !== undefined) this.needs.clock.clearTimer(this.pause);
    this.live?.end();
    this.needsNoProcess();
  }

  private needsNoProcess(): void {
    this.letGo?.();
    this.letGo = undefined;
  }

  private async connect(): Promise<void> {
    if (this.closed) return;
    this.letGo ??= this.needs.clock.keepAlive();
    try {
      const source = await this.locate();
      if (this.closed) return;
      const live = new LiveConnection(source, this.needs, (error) => this.live === live && this.lost(error, reconnectPause(true)));
      this.live = live;
      this.source = source;
      this.client = await live.open();
      this.sender = this.client.sender;
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
    this.live = this.client = undefined;
    this.sender = UNCONNECTED;
    this.state.isOpen = false;
    if (!this.closed) {
      this.events.emit('problem', error);
      if (this.pause !== undefined) clock.clearTimer(this.pause);
      this.letGo ??= clock.keepAlive();
      // connect() tells its error to those who listen.
      this.pause = clock.setTimer(() => void this.connect().catch(() => {}), retryMs);
    }
    this.events.emit('end');
  }
}

/** A connection for messages. */
export class MessageConnection implements Subscriber {
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
      const isTold = flushed !== undefined && (await askForFlushes((command, ...args) => client.sender.call(command, ...args)));
      // It is a subscription of its own, because a user may lack the right to this channel only.
      if (isTold) client.subscribe([FLUSHES], flushed).catch(() => undefined);
      await client.subscribe(channels, hear);
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

/**
 * The channel of the news that the data of a server were emptied or replaced while it ran (FLUSHALL, a snapshot that is loaded). A server sends it to
 * every connection that wants to be told of changes to the keys that it reads, and to one that reads no key it sends nothing else.
 */
export const FLUSHES = '__redis__:invalidate';

/**
 * Asks for the news on a connection that will subscribe, with a function that sends a command on it. Returns whether the server agrees: a
 * user without the right, or a proxy that does not know the command, goes without the news.
 */
async function askForFlushes(send: (command: string, ...args: string[]) => Promise<unknown>): Promise<boolean> {
  try {
    const id = await send('CLIENT', 'ID');
    await send('CLIENT', 'TRACKING', 'ON', 'REDIRECT', String(id));
    return true;
  } catch {
    return false;
  }
}
