/**
 * The part of node-redis (the package `redis`, versions 5 and 6) that is used. A store has one client for each connection, from
 * connecting to its end, and such a client never reconnects: what it does then differs between versions, and it cannot be told to
 * leave a server that has stopped answering.
 */
import type { Address } from '../connections.js';
import type { AskLogin } from '../login.js';

/** Options of createClient. Those that are not named here are passed on. */
export interface ClientOptions {
  readonly socket?: SocketOptions | undefined;
  readonly database?: number | undefined;
  readonly [name: string]: unknown;
}

/** Options of the socket: an address, and those of net.connect and tls.connect. */
export interface SocketOptions {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly path?: string | undefined;
  readonly tls?: boolean | undefined;
  readonly connectTimeout?: number | undefined;
  readonly family?: number | undefined;
  readonly reconnectStrategy?: unknown;
  readonly socketTimeout?: number | undefined;
  readonly signal?: AbortSignal;
}

export interface NodeRedisClient {
  connect(): Promise<unknown>;
  destroy(): void;
  sendCommand(args: string[]): Promise<unknown>;
  subscribe(channels: string[], listener: (message: string) => void): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'connect', listener: () => void): unknown;
}

/** Makes a client from options: createClient of the package. */
export type CreateClient = (options: ClientOptions) => NodeRedisClient;

/** What is used of the package itself. */
export interface NodeRedisPackage {
  createClient(options: ClientOptions): NodeRedisClient & { duplicate(overrides: ClientOptions): NodeRedisClient };
}

/** Makes clients: a function of the package, or the method `duplicate` of a client of the application. */
export interface ClientSource {
  /** The options that the user gave. */
  readonly given: ClientOptions;
  /** Asked for the login of each connection, if the user gave a function for it. */
  readonly login?: AskLogin | undefined;
  readonly make: CreateClient;
}

/** The same source for the server at another address. */
export function at(source: ClientSource, address: SocketOptions): ClientSource {
  return { ...source, given: { ...source.given, socket: { ...source.given.socket, ...address } } };
}

/** Says under which address a server can be reached from here that is named otherwise: by its `host:port`. */
export type AddressMap = Readonly<Record<string, Address>> | ((address: string) => Address | null | undefined) | null | undefined;

export function mapped(map: AddressMap): (address: Address) => SocketOptions {
  return ({ host, port }) => (typeof map === 'function' ? map(`${host}:${port}`) : map?.[`${host}:${port}`]) ?? { host, port };
}

/** The options that are forced on the client of one connection, which may take `connectMs`. It ends when `signal` aborts. */
export function forcedOptions({ socket, ...given }: ClientOptions, connectMs: number, signal: AbortSignal): ClientOptions {
  return {
    ...given,
    url: undefined,
    // The replies have the same shapes in all versions, and no command is sent that an old server does not know.
    RESP: 2,
    name: undefined,
    disableClientInfo: true,
    // Of version 6, and for RESP 3 only.
    maintNotifications: 'disabled',
    clientSideCache: undefined,
    emitInvalidate: undefined,
    keyPrefix: undefined,
    readonly: false,
    pingInterval: undefined,
    // A command fails at once when its connection ends, and the core asks again. Nothing is kept and sent later.
    disableOfflineQueue: true,
    commandsQueueMaxLength: undefined,
    // Numbers as numbers, texts as texts; and no timer for each command, because the runner has deadlines of its own.
    commandOptions: { timeout: 0, typeMapping: {} },
    socket: {
      ...socket,
      reconnectStrategy: false,
      connectTimeout: Math.min(socket?.connectTimeout || Infinity, connectMs),
      socketTimeout: undefined,
      signal,
    },
  };
}
