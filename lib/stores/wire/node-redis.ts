/**
 * Connections by node-redis (the package `redis`, versions 5 and 6), made from a URL, options, or a client of the application. Such a
 * client is only asked what it was made with.
 */
import { LockUsageError } from '../../core/port/errors.js';
import { connectingBy, routeByNodes, routeOf, routeTo, type Connect, type Route } from './connections.js';
import { type ClusterTarget, type Endpoint, notLoaded, type ServerOptions, serverOfUrl } from './redis-target.js';
import { routeBySentinels } from './sentinel-master.js';
import { mapped, type Address, type AddressMap, type Client, type ClientSpec, type Source } from './server-connection.js';

/** Options of createClient. Those that are not named here are passed on. */
interface ClientOptions {
  readonly socket?: SocketOptions | undefined;
  readonly [name: string]: unknown;
}

/** Options of the socket: an address, and those of net.connect and tls.connect. */
interface SocketOptions extends Endpoint {
  readonly path?: string | undefined;
  readonly [name: string]: unknown;
}

/** The part of a client that is used. */
interface NodeRedisClient {
  connect(): Promise<unknown>;
  destroy(): void;
  sendCommand(args: string[]): Promise<unknown>;
  subscribe(channels: string[], listener: (message: string) => void): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'connect', listener: () => void): unknown;
}

/** Makes a client from options: createClient of the package, or the method `duplicate` of a client. */
export type CreateClient = (options: ClientOptions) => NodeRedisClient;

/** What is used of the package itself. */
export interface NodeRedisPackage {
  createClient(options: ClientOptions): NodeRedisClient & { duplicate(overrides: ClientOptions): NodeRedisClient };
}

/** createClient makes a class with all commands each time that it is called, which takes 30 ms; a copy of a client takes none of that. */
export function copying({ createClient }: NodeRedisPackage): CreateClient {
  const first = createClient({});
  return (options) => first.duplicate(options);
}

/** @throws LockUsageError for an option that only ioredis has */
export function byNodeRedis(target: string | ServerOptions | ClusterTarget, create: CreateClient): Connect {
  if (typeof target === 'object' && 'Connector' in target && target.Connector !== undefined) {
    throw new LockUsageError('Lock options: Connector is an option of ioredis that node-redis does not have. Install ioredis, or give a client of node-redis.');
  }
  return connectingBy(routeOf(target, (read, login) => ({ ...sourceFrom(optionsOf(read()), create), login })), true);
}

function optionsOf({ host, port, path, family, tls, username, password, db }: ServerOptions): ClientOptions {
  const address = path == null ? { host: host ?? 'localhost', port: port ?? 6379 } : { path };
  const socket: SocketOptions = { ...(tls == null ? {} : { ...tls, tls: true }), ...address, family };
  return { socket, username, password, database: db };
}

function sourceFrom(given: ClientOptions = {}, create: CreateClient): Source {
  return { address: {}, make: (how) => clientOf(given, create, how) };
}

function clientOf(given: ClientOptions, create: CreateClient, how: ClientSpec): Client {
  const socket = new AbortController();
  const client = create(optionsFor(given, how, socket.signal));
  client.on('connect', how.connected);
  client.on('error', (error) => {
    how.failed(error);
    how.ended();
  });
  return {
    sender: { call: (...words) => client.sendCommand(words.map(String)) },
    connect: () => client.connect(),
    subscribe: (channels, hear) => client.subscribe([...channels], hear),
    destroy() {
      socket.abort();
      try {
        client.destroy();
      } catch {
        // Version 5 throws when the socket has ended already.
      }
    },
  };
}

/**
 * How much is given to the socket in one turn of the event loop, in bytes. Behind so much the client keeps commands until the network has
 * taken what came before, so that they would not be written yet when a call with `awaitRelease: false` is over.
 */
const MOST_IN_A_TURN = 2 ** 30;

/** The options of the client of one connection: what the user may not change comes last. */
function optionsFor({ socket, ...given }: ClientOptions, { address, login }: ClientSpec, signal: AbortSignal): ClientOptions {
  return {
    ...given,
    ...login,
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
      ...address,
      reconnectStrategy: false,
      // A limit of the client counts while this process is busy too; the connection has its own.
      connectTimeout: 0,
      socketTimeout: undefined,
      highWaterMark: MOST_IN_A_TURN,
      signal,
    },
  };
}

/** A client that may be given. */
interface GivenClient {
  readonly options?: ClientOptions | undefined;
  readonly _self: object;
  readonly isReady?: boolean;
  duplicate?(overrides: ClientOptions): NodeRedisClient;
  getMasterNode?(): Address | undefined;
  on?(event: 'topology-change', listener: (change: { readonly type: string; readonly node: Address }) => void): unknown;
  _execute?<T>(isReadonly: boolean, ask: (node: GivenClient) => Promise<T>): Promise<T>;
}

interface ClusterSettings {
  readonly rootNodes: readonly ClientOptions[];
  readonly defaults?: ClientOptions;
  readonly nodeAddressMap?: AddressMap;
}

interface SentinelSettings {
  readonly name: string;
  readonly sentinelRootNodes: readonly Address[];
  readonly nodeClientOptions?: ClientOptions;
  readonly sentinelClientOptions?: ClientOptions;
  readonly nodeAddressMap?: AddressMap;
}

/** True if this is a client of node-redis, perhaps of another copy of the package. Clients of ioredis have defineCommand. */
export function isNodeRedis(target: unknown): target is GivenClient {
  return typeof target === 'object' && target !== null && kindOf(target) !== undefined;
}

function kindOf(target: object): 'client' | 'cluster' | 'sentinel' | undefined {
  const has = (name: string): boolean => typeof Reflect.get(target, name) === 'function';
  if (has('defineCommand') || !has('sendCommand') || !('_self' in target)) return undefined;
  if (has('nodeClient')) return 'cluster';
  if (has('getMasterNode')) return 'sentinel';
  return has('duplicate') ? 'client' : undefined;
}

/** `create` makes the clients of the nodes of a Cluster, and of Sentinels. @throws LockUsageError when it is needed and missing */
export function byGivenNodeRedis(client: GivenClient, create: CreateClient | undefined): Connect {
  return connectingBy(routeOfClient(client, create), true);
}

function routeOfClient(client: GivenClient, create: CreateClient | undefined): Route {
  const kind = kindOf(client);
  if (kind === 'client') {
    const { path, host = 'localhost', port = 6379 } = client.options?.socket ?? {};
    return routeTo(path ?? `${host}:${port}`, copied(client));
  }
  if (create === undefined) throw notLoaded('redis is a Cluster or Sentinel client of node-redis', 'redis');
  if (kind === 'cluster') return ofGivenCluster(settingsOf<ClusterSettings>(client), create);
  if (typeof client.duplicate !== 'function') return followed(client);
  const { name, sentinelRootNodes, nodeClientOptions, sentinelClientOptions, nodeAddressMap } = settingsOf<SentinelSettings>(client);
  return routeBySentinels(name, sentinelRootNodes, sourceFrom(sentinelClientOptions, create), sourceFrom(nodeClientOptions, create), nodeAddressMap);
}

function copied(client: GivenClient): Source {
  return sourceFrom(client.options, (options) => client.duplicate!(options));
}

/**
 * The options with which a Cluster or Sentinel client was made. It has no property for them, and its method `duplicate` gives them to
 * the constructor of its class: here to one that only keeps them.
 */
function settingsOf<T>(client: GivenClient): T {
  const kept: T[] = [];
  const keep = function (settings: T): void {
    kept.push(settings);
  };
  Reflect.apply(client.duplicate!, Object.create({ constructor: keep }, { _self: { value: client._self } }), [{}]);
  return kept[0]!;
}

function ofGivenCluster({ rootNodes, defaults = {}, nodeAddressMap }: ClusterSettings, create: CreateClient): Route {
  const roots = rootNodes.map(({ url, ...root }): Source => {
    const { host, port = 6379 } = typeof url === 'string' ? serverOfUrl(url) : (root.socket ?? {});
    return { ...sourceFrom({ ...defaults, ...root, socket: { ...defaults.socket, ...root.socket } }, create), address: { host: host ?? 'localhost', port } };
  });
  return routeByNodes({ roots, ofNodes: sourceFrom(defaults, create), map: mapped(nodeAddressMap) });
}

/** A Sentinel client of version 5 does not tell its options, so it is asked each time where the master is. */
function followed(client: GivenClient): Route {
  let source: Source | undefined;
  const locate = async (): Promise<Source> => {
    const master = client.isReady === true ? client.getMasterNode!() : undefined;
    if (master === undefined) throw new Error('the client that createSentinel() made is not connected; call its connect() first');
    source ??= await client._execute!(false, (node) => Promise.resolve(copied(node)));
    return { ...source, address: master };
  };
  return {
    node: 'the master of Sentinel',
    begin: (_, moved) => {
      client.on?.('topology-change', ({ type, node }) => type === 'MASTER_CHANGE' && moved(node));
      return { locate };
    },
  };
}
