/**
 * A connection to one server, made anew whenever it ends: to an address that is fixed, or that a Sentinel names anew each time. Each
 * has a client of its own, of ioredis or of node-redis, from connecting to its end. Such a client never reconnects: what it does then
 * differs between packages and versions, and it cannot be told to leave a server that has stopped answering.
 *
 *     waiting ──start()──▶ connecting ──(the server has answered)──▶ open ──▶ pause ──▶ connecting …
 *                               └────────(refused, or too late)────────────────▲
 */
import { EventEmitter, once } from 'node:events';
import { inTime, type Clock, type Timer } from '../../core/port/clock.js';
import { messageOf } from '../../core/port/errors.js';
import type { AskLogin, Login } from './redis-target.js';
import { isReply, NOT_CONNECTED } from './store-failure.js';

/** Sends commands. A client of ioredis is a sender as it is, so that no further call is made for a command. */
export interface Sender {
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

export function nameOf({ host, port }: Address): string {
  return `${host}:${port}`;
}

/** Says under which address a server can be reached from here that is named otherwise: by its `host:port`. */
export type AddressMap = Readonly<Record<string, Address>> | ((address: string) => Address | null | undefined) | null | undefined;

export function mapped(map: AddressMap): (address: Address) => Address {
  return (address) => (typeof map === 'function' ? map(nameOf(address)) : map?.[nameOf(address)]) ?? address;
}

/** A client of a package. */
export interface Client {
  readonly sender: Sender;
  /** Connects. Rejects with what the client or the server says. */
  connect(): Promise<unknown>;
  subscribe(channels: readonly string[], hear: (message: string) => void): Promise<unknown>;
  /** Ends the connection, or what connects, at once. */
  destroy(): void;
  /** A client that writes each command by itself has it: what it sends until {@link uncork} is one write. */
  cork?(): void;
  uncork?(): void;
}

/** Where a client leads to, and who hears of its connection. */
export interface ClientSpec {
  /** In place of the address that its options have. */
  readonly address: Partial<Address>;
  /** In place of the login that its options have. */
  readonly login: Login | undefined;
  /** Is called when the socket is connected. */
  connected(): void;
  /** Is called with an error of the connection. */
  failed(error: Error): void;
  /** Is called when the connection has ended. */
  ended(): void;
}

/** Makes clients of one server. */
export interface Source {
  /** In place of the address that its options have. */
  readonly address: Partial<Address>;
  /** Asked for the login of each connection, if the user gave a function for it. */
  readonly login?: AskLogin | undefined;
  readonly make: (how: ClientSpec) => Client;
}

/** Gives the source of clients of the server that is to be connected to now. Rejects when it is not known. */
export type Locate = () => Promise<Source>;

/** What the steps of a connection are timed by. */
export interface Timing {
  readonly clock: Clock;
  /** How long a command may take, in ms (commandTimeoutMs). */
  readonly timeoutMs: number;
}

/** The name of all connections, by which operators find them in CLIENT LIST. */
export const CONNECTION_NAME = 'nestjs-holdfast';

/**
 * How long connecting may take, and then the first answer, in ms. It is several exchanges, which on a slow network take longer than a
 * command does. A frozen server accepts connections, and never answers.
 */
const CONNECTS_WITHIN_MS = 1_000;

/**
 * A server that was silent is given twice the time after each time in a row, up to so many times the usual, until a connection is open in the
 * usual time again. One that is only busy would otherwise be left by all its clients again and again, and kept busy by their new connections.
 */
const MOST_PATIENCE = 4;

/** How long a client pauses at most before it connects again, in ms. The first try comes almost at once, because leases have to be renewed. */
const FIRST_RECONNECT_MS = 50;
const RECONNECT_MS = 150;
/** The pauses double with each minute of an outage, three times at most: leases have ended by then, and there may be hundreds of processes. */
const DOUBLES_EACH_MS = 60_000;
const MOST_DOUBLINGS = 3;
/**
 * When so many connections in a row led to a server that is no master, the pauses grow, up to sixteen times the first: an address may lead to
 * a former master for minutes. A connection that was open for so long, in ms, ends the row.
 */
const FORMER_MASTERS = 4;
const LASTED_MS = 1_000;

/** What a server says before it closes a connection that it does not take. */
const TURNED_AWAY = /max number of clients|^DENIED\b/;

const REFUSED_LOGIN = /\b(WRONGPASS|NOAUTH|ERR AUTH|ERR invalid password)\b/;
/** Not an error for an operator: the function is asked again, and may know the new password a moment later than the server. */
const LOGIN_OF_FUNCTION_REFUSED = 'the server refused the login that the function gave';

/** Resolves in two turns of the event loop: node-redis sends in the next turn what it is told to, and answers are read in the one after. */
export function sentAndRead(clock: Clock): Promise<void> {
  return new Promise((resolve) => clock.nextTurn(() => clock.nextTurn(resolve)));
}

const UNCONNECTED: Sender = { call: () => Promise.reject(new Error(NOT_CONNECTED)) };

/** The events of a connection. */
interface ConnectionEvents {
  open: [];
  /** It has ended, or a further try failed when it was not open before. It is not open then. */
  end: [];
  /** An error of it. */
  problem: [Error];
  /** From now on another server may answer for the Redis keys for which `isConcerned` is true. */
  change: [isConcerned: (redisKey: string) => boolean];
  /** The server of this source has no part in the Cluster any more, as far as is known. */
  left: [Source];
}

/** A connection that is made anew whenever it ends: what that to one server and that to a Cluster have in common. */
export abstract class BaseConnection {
  /** True if commands can be sent: a client is connected, and the server has answered on the connection. Only the connection writes it. */
  isOpen = false;
  readonly events = new EventEmitter<ConnectionEvents>().setMaxListeners(0);

  /** Begins to connect, unless that has begun. Rejects when the first try fails; further tries follow. */
  abstract start(): Promise<void>;

  /** Resolves when it is open, now or later. */
  async opened(): Promise<void> {
    if (this.isOpen) return;
    this.start().catch(() => {});
    await once(this.events, 'open');
  }
}

/** A client, from connecting to its end. A connection has one link after another. */
interface Link {
  client?: Client;
  /** The last error that the client told of, or the reason for which this process ended it while it was connecting. */
  reason?: Error;
  /** Ends the wait for the client to connect, in which code of the user may run that never ends. */
  left?: (reason: Error) => void;
}

export class ServerConnection extends BaseConnection {
  sender = UNCONNECTED;
  /** The source of the server that the present connection leads to. */
  source: Source | undefined;
  /**
   * Since when it owes an answer and has sent nothing, also when nobody awaits that answer any more; undefined while it owes none. Only the
   * script runner writes it.
   */
  owesSince: number | undefined;
  /** The command that was sent to it last. Answers come in order, so it owes none after the answer to that. Only the script runner writes it. */
  last: object | undefined;
  /** What its server has run on the present connection, by name. Only the script runner writes it. */
  readonly ran = new Set<string>();
  /** How many times the usual the server has for an answer: more than once when it was too slow. Only this object writes it. */
  patience = 1;
  /** The present one; undefined once it has ended. */
  private link: Link | undefined;
  private openSince = -Infinity;
  /** Since when it has not been open. */
  private failsSince = this.timing.clock.now();
  /** How many connections in a row led to a server that is no master. */
  private formerMasters = 0;
  private starting: Promise<void> | undefined;
  /** The timer of the present step of connecting, or of the pause before the next try. */
  private timer: Timer | undefined;
  /** Lets the process end, which is kept alive without a connection as it is by the socket of one. */
  private letProcessEnd: (() => void) | undefined;
  private closed = false;

  constructor(
    private readonly locate: Locate,
    private readonly timing: Timing,
    /** What it subscribes to, if it is one for messages: it is open when it has subscribed. */
    private readonly listening?: Listening,
    /** How long the server may take for each step of connecting, in ms. */
    private readonly stepMs = listening ? SUBSCRIBES_WITHIN_MS : CONNECTS_WITHIN_MS,
  ) {
    super();
  }

  start(): Promise<void> {
    return (this.starting ??= this.connect());
  }

  /** Where a command is sent: here, while it is open. */
  serving(): ServerConnection | undefined {
    return this.isOpen ? this : undefined;
  }

  /** Where a command is sent again that the server refused: nowhere. */
  elsewhere(): undefined {}

  /** The server of the present connection, which a Sentinel might name differently by now. */
  async here(): Promise<Source> {
    return this.isOpen ? this.source! : this.locate();
  }

  /** All commands that are sent until {@link uncork} are one write: a write costs more than what is in it. */
  cork(): void {
    this.link?.client?.cork?.();
  }

  uncork(): void {
    this.link?.client?.uncork?.();
  }

  /** Ends an open connection, so that a new one is made. */
  drop(isNoMaster = false): void {
    if (!this.isOpen) return;
    this.formerMasters = isNoMaster ? this.formerMasters + 1 : 0;
    this.leave();
  }

  /** Leaves the server that it leads to, or begins to lead to. */
  leave(reason = new Error('Connection is closed.')): void {
    const { link } = this;
    if (link === undefined) return;
    this.link = undefined;
    link.reason ??= reason;
    // The owner is told before the commands on the way fail, so that no command follows them into this connection.
    if (this.isOpen) {
      if (this.timing.clock.now() - this.openSince >= LASTED_MS) this.formerMasters = 0;
      this.lost(reason, FIRST_RECONNECT_MS * 2 ** Math.min(4, Math.max(0, this.formerMasters - FORMER_MASTERS)));
    }
    link.client?.destroy();
    link.left?.(link.reason);
  }

  /** Leaves it because it was silent for too long. The next connection gives it more time. */
  leaveSilent(reason: Error): void {
    this.leave(reason);
    this.patience = Math.min(MOST_PATIENCE, 2 * this.patience);
  }

  /** Leaves it, unless it is the one at `to`. */
  leaveFor(to: Address): void {
    const { host, port } = this.source?.address ?? to;
    if (host !== to.host || port !== to.port) this.leave(new Error(`the master is now ${nameOf(to)}`));
  }

  close(): void {
    this.closed = true;
    this.endTimer();
    this.leave();
    this.needsNoProcess();
  }

  private needsNoProcess(): void {
    this.letProcessEnd?.();
    this.letProcessEnd = undefined;
  }

  private async connect(): Promise<void> {
    if (this.closed) return;
    this.letProcessEnd ??= this.timing.clock.keepAlive();
    try {
      const source = await this.locate();
      if (this.closed) return;
      this.source = source;
      await this.open(source, (this.link = {}));
    } catch (error) {
      this.lost(error as Error, RECONNECT_MS);
      throw error;
    }
  }

  /** Rejects with what the client or the server says. A server that accepts connections and answers nothing is given up. */
  private async open(source: Source, link: Link): Promise<void> {
    const { listening, timing: { clock, timeoutMs } } = this;
    const stepMs = this.patience * this.stepMs;
    const isSilent = (): void => this.leaveSilent(new Error(`the server takes connections, but gave no answer within ${stepMs} ms`));
    const beginStep = (): void => this.beginStep(stepMs, isSilent);
    try {
      const login = await source.login?.(clock, timeoutMs);
      if (this.link !== link) throw new Error('the connection was closed');
      const begunAt = clock.now();
      this.beginStep(stepMs, () => this.leave(new Error('connect ETIMEDOUT')));
      const client = (link.client = source.make({
        address: source.address,
        login,
        connected: () => this.link === link && beginStep(),
        // What a client says of a connection that was ended here hides why.
        failed: (error) => (link.reason = this.link === link ? error : link.reason),
        ended: () => this.link === link && this.isOpen && this.leave(link.reason),
      }));
      const connecting = client.connect();
      // A client that is connected only after its time was over is closed.
      connecting.then(() => this.link === link || client.destroy(), () => {});
      await Promise.race([connecting, new Promise<never>((_resolve, reject) => (link.left = reject))]);
      beginStep();
      // Operators find the connection in CLIENT LIST by its name. Some versions of ioredis are connected before the server has answered
      // to the password and the database; answers come in order, so both are known with this one. An error reply is an answer too.
      await client.sender.call('client', 'SETNAME', CONNECTION_NAME).catch((error: unknown) => {
        if (!isReply(error) || TURNED_AWAY.test(messageOf(error))) throw error;
      });
      beginStep();
      if (listening !== undefined) await subscribe(client, listening);
      // ioredis goes on in database 0, where the locks are not, when a server refuses another one.
      if (link.reason !== undefined || this.link !== link) throw new Error('the connection was closed');
      this.endTimer();
      this.sender = client.sender;
      this.isOpen = true;
      this.openSince = clock.now();
      if (clock.now() - begunAt < this.stepMs) this.patience = 1;
      this.needsNoProcess();
      this.events.emit('open');
    } catch (error) {
      const reason = link.reason ?? error;
      this.leave();
      if (source.login !== undefined && REFUSED_LOGIN.test(messageOf(reason))) throw new Error(LOGIN_OF_FUNCTION_REFUSED);
      throw reason;
    }
  }

  /**
   * Begins a step of connecting, for which the server has so long. A process that is late does not take a server for a silent one:
   * when the time is over, what waits to be sent is sent, and what has come is read before the step ends.
   */
  private beginStep(stepMs: number, isOver: () => void): void {
    const { clock } = this.timing;
    this.endTimer();
    const timer = clock.setTimer(() => void sentAndRead(clock).then(() => this.timer === timer && isOver()), stepMs);
    this.timer = timer;
  }

  private endTimer(): void {
    this.timing.clock.clearTimer(this.timer);
    this.timer = undefined;
  }

  private lost(error: Error, pauseMs: number): void {
    const { clock } = this.timing;
    const wasOpen = this.isOpen;
    if (wasOpen) this.failsSince = clock.now();
    this.sender = UNCONNECTED;
    this.ran.clear();
    this.isOpen = false;
    this.endTimer();
    if (!this.closed) {
      this.events.emit('problem', error);
      this.letProcessEnd ??= clock.keepAlive();
      const slower = 2 ** Math.min(MOST_DOUBLINGS, Math.floor((clock.now() - this.failsSince) / DOUBLES_EACH_MS));
      // connect() tells its error to those who listen.
      this.timer = clock.setTimer(() => void this.connect().catch(() => {}), this.listening?.pauseMs ?? slower * pauseMs * (0.5 + 0.5 * Math.random()));
    }
    if (wasOpen) this.events.emit('change', () => true);
    this.events.emit('end');
  }
}

/** Asks a server over a connection of its own, which ends with the answer. That, and each step of connecting, may take `withinMs`. */
export async function askOnce<T>(source: Source, timing: Timing, ask: (sender: Sender) => Promise<T>, withinMs: number): Promise<T> {
  const connection = new ServerConnection(() => Promise.resolve(source), timing, undefined, withinMs);
  try {
    await connection.start();
    return await answerWithin(ask(connection.sender), withinMs, timing.clock);
  } finally {
    connection.close();
  }
}

/** Rejects when the answer has not come in time, and been read by a process that may be late. */
export function answerWithin<T>(answer: Promise<T>, withinMs: number, clock: Clock): Promise<T> {
  return inTime(clock, answer, withinMs, () => sentAndRead(clock).then(() => new Error('connect ETIMEDOUT')));
}

/** Where a command is sent. */
export interface Target {
  readonly to: ServerConnection;
  /** True if its slot is still being moved there, so that the command ASKING must come first. */
  readonly asking?: boolean;
}

/** What a connection for messages subscribes to, and who is called with them. */
export interface Listening {
  readonly channels: readonly string[];
  hear(message: string): void;
  /** Is called whenever the data of the server were emptied or replaced, if the server tells. A listener that need not know leaves it out. */
  readonly flushed?: (() => void) | undefined;
  /** How long after its end it is made anew, in ms; by default as soon as one for commands. */
  readonly pauseMs?: number;
}

/** How long each step of connecting may take for a connection for messages, in ms: its last step is to subscribe, and to ask for the news of flushes. */
const SUBSCRIBES_WITHIN_MS = 2_000;

async function subscribe(client: Client, { channels, hear, flushed }: Listening): Promise<void> {
  // A user without the right, or a proxy that does not know the command, goes without the news of a flush.
  if (flushed !== undefined) await hearOfFlushes(client, flushed).catch(() => {});
  await client.subscribe(channels, hear);
}

/**
 * The channel of the news that the data of a server were emptied or replaced while it ran (FLUSHALL, a snapshot that is loaded). A server sends it to
 * every connection that wants to be told of changes to the keys that it reads, and to one that reads no key it sends nothing else.
 */
export const FLUSHES = '__redis__:invalidate';

/** Resolves when the server agrees. The subscription is one of its own, and not waited for, because a user may lack the right to that channel only. */
async function hearOfFlushes(client: Client, flushed: () => void): Promise<void> {
  const id = await client.sender.call('CLIENT', 'ID');
  await client.sender.call('CLIENT', 'TRACKING', 'ON', 'REDIRECT', String(id));
  client.subscribe([FLUSHES], flushed).catch(() => {});
}
