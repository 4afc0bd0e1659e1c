/**
 * What the stores need of the connections to one Redis, Sentinel or Cluster (route.ts). The packages of clients are known only by
 * ioredis.ts and node-redis.ts.
 *
 *     commands      for all scripts                  reconnects for ever; queues no commands while it is away
 *     replicated()  a new one for renewals with      the same; the runner has one for each number of replicas
 *                   WAIT, which blocks it
 *     subscribe()   a new connection for messages    never reconnects: WakeChannel makes a new one
 */
import type { Clock } from '../../core/port/clock.js';

/** Makes the connections to one target. A command of the store may take `timeoutMs`. @throws LockUsageError for a target that cannot be */
export type Connect = (timeoutMs: number, clock: Clock) => Connections;

/** Sends commands. A client of ioredis is a sender as it is, so that no further call is made for a command on one server. */
export interface Sender {
  /** Runs a script by its hash. The error of a server that does not know it begins with NOSCRIPT. */
  evalsha(sha1: string, numberOfKeys: number, ...keysAndArguments: (string | number)[]): Promise<unknown>;
  eval(source: string, numberOfKeys: number, ...keysAndArguments: (string | number)[]): Promise<unknown>;
  /** Sends any other command. In a Cluster it goes to the master of its key, or to any node when it has no key. */
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
}

/** What is read for every command before it is sent, and when it is answered. It is the same object for the life of a connection. */
export interface ConnectionState {
  /** Whether commands can be sent: the client is connected, and the server has answered on the connection. */
  readonly isOpen: boolean;
}

/** A connection that is made anew whenever it ends. That to a Cluster has one connection to each master. */
export interface Connection {
  /** Of the present connection: the next one has another. */
  readonly sender: Sender;
  readonly state: ConnectionState;
  /** Begins to connect, unless that has begun. Rejects when the first try fails; further tries follow. */
  start(): Promise<void>;
  /** Closes a connection that has stopped answering, or for this reason, so that a new one is made. A Cluster does that itself, node by node. */
  drop(reason?: Error): void;
  /** Calls `listener` whenever the connection becomes open, until the returned function is called. */
  onOpen(listener: () => void): () => void;
  /** Calls `listener` when the connection has ended, and at each further try that fails. It is not open then. */
  onEnd(listener: () => void): void;
  /** Calls `listener` with every error of the connection, until the returned function is called. */
  onError(listener: (error: Error) => void): () => void;
  /** Calls `send`, and writes what that sends in few pieces. Where it is left out, each command is worth a write, or the client does so. */
  inFewWrites?(send: () => void): void;
  /** Sends a script, and WAIT behind it on the same connection. Resolves with both replies; rejects when either is an error. */
  evalAndWait(run: EvalAndWait): Promise<readonly [reply: unknown, acknowledged: unknown]>;
}

export interface EvalAndWait {
  readonly source: string;
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
  readonly replicas: number;
  /** How long the server waits for the replicas, in ms. */
  readonly waitMs: number;
}

/** A connection for messages. It ends once. */
export interface Subscriber {
  /**
   * Connects and subscribes. Rejects with the error of the client or the server. `flushed` is called whenever the data of the server were
   * emptied or replaced, if the server tells (server-connection.ts).
   */
  open(channels: readonly string[], hear: (message: string) => void, flushed?: () => void): Promise<void>;
  onEnd(listener: () => void): void;
  /** Ends the connection; whoever listens for its end is told. */
  drop(): void;
  close(): void;
}

export interface Connections {
  readonly isCluster: boolean;
  /** Whether a command is written to its socket in the turn of the event loop after the one in which it was sent, as node-redis does. */
  readonly writesNextTurn?: boolean;
  readonly commands: Connection;
  /** Makes a connection for renewals that replicas must acknowledge. It is closed with the others. */
  replicated(): Connection;
  /** A connection that owes an answer and from which nothing comes for this long, in ms, is given up. */
  readonly patienceMs: number;
  /** The name of the node in messages. */
  readonly node: string;
  /** The last error of the connection for commands; undefined once it is open. */
  lastError: Error | undefined;
  /** The address of a single server that is asked for TLS; else undefined. */
  readonly addressWithTls: Address | undefined;
  /** Calls `listener` whenever another server may answer from now on, for the Redis keys for which `isConcerned` is true. */
  onChange(listener: (isConcerned: (redisKey: string) => boolean) => void): void;
  /** Makes a connection for a subscriber; in a Cluster to any node, because messages reach all of them. */
  subscribe(): Subscriber;
  /** The masters, on each of which SCAN has to run. */
  masters(): readonly Sender[];
  close(): void;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

export function nameOf({ host, port }: Address): string {
  return `${host}:${port}`;
}

const SHORTEST_PATIENCE_MS = 1_000;

/** {@link Connections.patienceMs} for commands that may take `timeoutMs`. */
export function patienceOf(timeoutMs: number): number {
  return Math.min(timeoutMs, Math.max(SHORTEST_PATIENCE_MS, 0.75 * timeoutMs));
}

/** The name of all connections, by which operators find them in CLIENT LIST. */
export const CONNECTION_NAME = 'nestjs-holdfast';

const CONNECTS_WITHIN_MS = 1_000;
const LEAST_TO_CONNECT_MS = 500;

/**
 * How long connecting may take, and then the first answer, in ms, for commands that may take `timeoutMs`. It is several exchanges, which
 * on a slow network take longer than a command does. A frozen server accepts connections, and never answers.
 */
export function connectingMs(timeoutMs: number): number {
  return Math.max(LEAST_TO_CONNECT_MS, Math.min(timeoutMs, CONNECTS_WITHIN_MS));
}

const FIRST_RECONNECT_MS = 40;
const LONGEST_RECONNECT_MS = 150;

/** How long a client pauses before it connects again, in ms. The first try comes almost at once, because leases have to be renewed. */
export function reconnectPause(isFirst: boolean): number {
  return isFirst ? FIRST_RECONNECT_MS * (0.5 + Math.random()) : LONGEST_RECONNECT_MS * (0.5 + 0.5 * Math.random());
}

/**
 * The error replies of a server that is no master any more, which is left for the new one. Redis 6 says READONLY inside the error of a
 * script, and others say ERR before it when a script passes the error on (refusal.lua).
 */
export const NO_MASTER = /^(?:ERR )?(?:READONLY|MASTERDOWN)\b|: -READONLY\b/;
