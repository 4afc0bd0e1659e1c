/** Clients of node-redis that the application made: what they are, and with which options, so that connections like theirs can be made. */
import { LockUsageError } from '../../../core/port/errors.js';
import type { Address } from '../connections.js';
import { at, mapped, type AddressMap, type ClientOptions, type ClientSource, type NodeRedisClient } from './node-redis-client.js';
import type { NodeRedisTarget } from './node-redis-connections.js';
import { addressOfUrl } from './translated-options.js';

/** Makes a client from options: createClient of the package. */
export type CreateClient = (options: ClientOptions) => NodeRedisClient;

type Kind = 'client' | 'cluster' | 'sentinel';

/** A client that may be given; it is only asked what it was made with. */
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

function kindOf(target: object): Kind | undefined {
  const has = (name: string): boolean => typeof Reflect.get(target, name) === 'function';
  if (has('defineCommand') || !has('sendCommand') || !('_self' in target)) return undefined;
  if (has('nodeClient')) return 'cluster';
  if (has('getMasterNode')) return 'sentinel';
  return has('duplicate') ? 'client' : undefined;
}

/** `create` makes the clients of the nodes of a Cluster, and of Sentinels. @throws LockUsageError when it is needed and missing */
export function givenTarget(client: GivenClient, create: CreateClient | undefined): NodeRedisTarget {
  const kind = kindOf(client);
  if (kind === 'client') return { kind: 'server', source: sourceOf(client) };
  const make = create ?? missing();
  if (kind === 'cluster') return clusterTarget(settingsOf<ClusterSettings>(client), make);
  return typeof client.duplicate === 'function' ? sentinelTarget(settingsOf<SentinelSettings>(client), make) : followed(client);
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

function clusterTarget({ rootNodes, defaults = {}, nodeAddressMap }: ClusterSettings, make: CreateClient): NodeRedisTarget {
  const roots = rootNodes.map(({ url, ...root }): ClientSource => {
    const address = typeof url === 'string' ? addressOfUrl(url) : {};
    const options = { ...defaults, ...root, socket: { ...defaults.socket, ...root.socket, ...address } };
    return { given: options, make };
  });
  return { kind: 'cluster', roots, ofNodes: { given: defaults, make }, map: mapped(nodeAddressMap) };
}

function sentinelTarget(settings: SentinelSettings, make: CreateClient): NodeRedisTarget {
  const { name, sentinelRootNodes, nodeClientOptions = {}, sentinelClientOptions = {}, nodeAddressMap } = settings;
  const ofSentinels = { given: sentinelClientOptions, make };
  return { kind: 'sentinel', name, sentinels: sentinelRootNodes, ofSentinels, ofMaster: { given: nodeClientOptions, make }, map: mapped(nodeAddressMap) };
}

/** A Sentinel client of version 5 does not tell its options, so it is asked each time where the master is. */
function followed(client: GivenClient): NodeRedisTarget {
  let source: ClientSource | undefined;
  const locate = async (): Promise<ClientSource> => {
    const master = client.isReady === true ? client.getMasterNode!() : undefined;
    if (master === undefined) throw new Error('the client that createSentinel() made is not connected; call its connect() first');
    source ??= await client._execute!(false, (node) => Promise.resolve(sourceOf(node)));
    return at(source, master);
  };
  return { kind: 'followed', locate };
}

function missing(): never {
  throw new LockUsageError("Lock options: redis is a Cluster or Sentinel client of node-redis, but the package 'redis' cannot be loaded from here. Install it beside nestjs-holdfast.");
}
