/**
 * Where a target leads, for node-redis: URLs, options in the words of ioredis, which mean the same with both packages, and clients that
 * the application made. Such a client is only asked what it was made with.
 */
import { LockUsageError } from '../../../core/port/errors.js';
import type { Address } from '../connections.js';
import type { ClusterTarget, ServerOptions } from '../redis-target.js';
import { loginFrom } from '../login.js';
import { said, serverOf, serverOfUrl } from '../server-url.js';
import type { ClusterEntry } from './cluster-connection.js';
import { at, mapped, type AddressMap, type ClientOptions, type ClientSource, type CreateClient, type NodeRedisClient, type SocketOptions } from './node-redis-client.js';
import type { Locate, Needs } from './node-redis-connection.js';
import { guidedBy, type SentinelEntry } from './sentinel-guide.js';

/** One server, perhaps the master that Sentinels name, or a Cluster. */
export type NodeRedisTarget = MasterTarget | { readonly cluster: ClusterEntry };

interface MasterTarget {
  /** Its name in messages. */
  readonly node: string;
  locate(needs: Needs): Locate;
  /** The address of a server that is asked for TLS. */
  readonly addressWithTls?: Address | undefined;
}

/** Options of ioredis that say how to connect and that node-redis does not have. */
const ONLY_IOREDIS = ['Connector', 'dnsLookup', 'useSRVRecords', 'failoverDetector'];
const SENTINEL_PORT = 26_379;

/** @throws LockUsageError for an option that only ioredis has */
export function targetOf(target: string | ServerOptions | ClusterTarget, make: CreateClient): NodeRedisTarget {
  if (typeof target === 'string') return targetOf({ url: target }, make);
  if ('cluster' in target) return ofCluster(target, make);
  refuseForeign(target);
  const { credentials, sentinelCredentials, ...server } = serverOf(target);
  const login = loginFrom('credentials', credentials);
  const { sentinels, name = 'mymaster', natMap, tls, sentinelTLS, enableTLSForSentinelMode, ...rest } = server;
  if (sentinels == null) return ofServer({ given: optionsOf(server), login, make });
  const { sentinelUsername, sentinelPassword, connectTimeout, family } = rest;
  const fixed = { username: sentinelUsername ?? undefined, password: sentinelPassword ?? undefined };
  const tlsOfSentinels = typeof sentinelTLS === 'object' && sentinelTLS !== null ? sentinelTLS : undefined;
  return ofSentinel({
    name,
    sentinels: sentinels.map(({ host = 'localhost', port = SENTINEL_PORT }) => ({ host, port })),
    ofSentinels: { given: optionsOf({ ...fixed, connectTimeout, family, tls: tlsOfSentinels }), login: loginFrom('sentinelCredentials', sentinelCredentials), make },
    ofMaster: { given: optionsOf({ ...rest, tls: enableTLSForSentinelMode === true ? tls : undefined }), login, make },
    map: mapped(natMap as AddressMap),
  });
}

function ofServer(source: ClientSource): MasterTarget {
  const { tls, path, host = 'localhost', port = 6379 } = source.given.socket ?? {};
  const addressWithTls = tls === true && path === undefined ? { host, port } : undefined;
  return { node: path ?? `${host}:${port}`, locate: () => () => Promise.resolve(source), addressWithTls };
}

function ofSentinel(entry: SentinelEntry): MasterTarget {
  return { node: `the master '${entry.name}' of Sentinel`, locate: (needs) => guidedBy(entry, needs) };
}

function ofCluster({ cluster, options = {}, credentials }: ClusterTarget, make: CreateClient): NodeRedisTarget {
  const { redisOptions = {}, natMap, ...rest } = options;
  refuseForeign(rest);
  refuseForeign(redisOptions);
  const named = cluster.map((node) => said(typeof node === 'string' ? serverOfUrl(node) : typeof node === 'number' ? { port: node } : node));
  const sourceOf = (server: ServerOptions): ClientSource => ({ given: optionsOf({ ...redisOptions, ...server }), login: loginFrom('credentials', credentials), make });
  // The login and TLS of a URL hold for all nodes, because the Cluster names the others by their addresses only.
  const { host, port, ...login } = named[0]!;
  return { cluster: { roots: named.map(sourceOf), ofNodes: sourceOf(login), map: mapped((natMap ?? redisOptions.natMap) as AddressMap) } };
}

function refuseForeign(options: object): void {
  const found = ONLY_IOREDIS.find((name) => Reflect.get(options, name) !== undefined);
  if (found === undefined) return;
  throw new LockUsageError(`Lock options: ${found} is an option of ioredis that node-redis does not have. Install ioredis, or give a client of node-redis.`);
}

function optionsOf({ host, port, path, family, connectTimeout, tls, username, password, db }: ServerOptions): ClientOptions {
  const address = path == null ? { host: host ?? 'localhost', port: port ?? 6379 } : { path };
  const socket: SocketOptions = { ...(tls == null ? {} : { ...tls, tls: true }), ...address, family, connectTimeout };
  return { socket, username, password, database: db };
}

/** A client that may be given. */
interface GivenClient {
  readonly options?: ClientOptions | undefined;
  readonly _self: object;
  readonly isReady?: boolean;
  duplicate?(overrides: ClientOptions): NodeRedisClient;
  getMasterNode?(): Address | undefined;
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

/** Whether this is a client of node-redis, perhaps of another copy of the package. Clients of ioredis have defineCommand. */
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
export function targetOfClient(client: GivenClient, create: CreateClient | undefined): NodeRedisTarget {
  const kind = kindOf(client);
  if (kind === 'client') return ofServer(sourceOf(client));
  const make = create ?? missing();
  if (kind === 'cluster') return ofGivenCluster(settingsOf<ClusterSettings>(client), make);
  if (typeof client.duplicate !== 'function') return followed(client);
  const { name, sentinelRootNodes, nodeClientOptions = {}, sentinelClientOptions = {}, nodeAddressMap } = settingsOf<SentinelSettings>(client);
  const [ofSentinels, ofMaster] = [{ given: sentinelClientOptions, make }, { given: nodeClientOptions, make }];
  return ofSentinel({ name, sentinels: sentinelRootNodes, ofSentinels, ofMaster, map: mapped(nodeAddressMap) });
}

function sourceOf(client: GivenClient): ClientSource {
  return { given: client.options ?? {}, make: (options) => client.duplicate!(options) };
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

function ofGivenCluster({ rootNodes, defaults = {}, nodeAddressMap }: ClusterSettings, make: CreateClient): NodeRedisTarget {
  const roots = rootNodes.map(({ url, ...root }): ClientSource => {
    const { host, port = 6379 } = typeof url === 'string' ? serverOfUrl(url) : {};
    const address = host === undefined ? {} : { host, port };
    return { given: { ...defaults, ...root, socket: { ...defaults.socket, ...root.socket, ...address } }, make };
  });
  return { cluster: { roots, ofNodes: { given: defaults, make }, map: mapped(nodeAddressMap) } };
}

/** A Sentinel client of version 5 does not tell its options, so it is asked each time where the master is. */
function followed(client: GivenClient): MasterTarget {
  let source: ClientSource | undefined;
  const locate = async (): Promise<ClientSource> => {
    const master = client.isReady === true ? client.getMasterNode!() : undefined;
    if (master === undefined) throw new Error('the client that createSentinel() made is not connected; call its connect() first');
    source ??= await client._execute!(false, (node) => Promise.resolve(sourceOf(node)));
    return at(source, master);
  };
  return { node: 'the master of Sentinel', locate: () => locate };
}

function missing(): never {
  throw new LockUsageError("Lock options: redis is a Cluster or Sentinel client of node-redis, but the package 'redis' cannot be loaded from here. Install it beside nestjs-holdfast.");
}
