/** Options in the words of ioredis, and URLs, for node-redis: a configuration means the same with both packages. */
import { LockUsageError } from '../../../core/port/errors.js';
import type { ClusterTarget, ServerOptions } from '../redis-target.js';
import { serverOfUrl } from '../server-url.js';
import type { CreateClient } from './given-clients.js';
import { mapped, type AddressMap, type ClientOptions, type ClientSource, type SocketOptions } from './node-redis-client.js';
import type { NodeRedisTarget } from './node-redis-connections.js';

/** Options of ioredis that say how to connect and that node-redis does not have. */
const ONLY_IOREDIS = ['Connector', 'dnsLookup', 'useSRVRecords', 'failoverDetector'];
const SENTINEL_PORT = 26_379;

export function targetOfUrl(url: string, make: CreateClient): NodeRedisTarget {
  return { kind: 'server', source: { given: optionsOf(serverOfUrl(url)), make } };
}

/** @throws LockUsageError for an option that only ioredis has */
export function targetOfOptions(options: ServerOptions | ClusterTarget, make: CreateClient): NodeRedisTarget {
  if ('cluster' in options) return ofCluster(options, make);
  refuseForeign(options);
  const { sentinels, name = 'mymaster', natMap, tls, sentinelTLS, enableTLSForSentinelMode, ...rest } = options;
  if (sentinels == null) return { kind: 'server', source: source(optionsOf(options), make) };
  const { sentinelUsername, sentinelPassword, connectTimeout, family } = rest;
  const login = { username: sentinelUsername ?? undefined, password: sentinelPassword ?? undefined };
  return {
    kind: 'sentinel',
    name,
    sentinels: sentinels.map(({ host = 'localhost', port = SENTINEL_PORT }) => ({ host, port })),
    ofSentinels: source(optionsOf({ ...login, connectTimeout, family, tls: objectOf(sentinelTLS) }), make),
    ofMaster: source(optionsOf({ ...rest, tls: enableTLSForSentinelMode === true ? tls : undefined }), make),
    map: mapped(natMap as AddressMap),
  };
}

function ofCluster({ cluster, options = {} }: ClusterTarget, make: CreateClient): NodeRedisTarget {
  const { redisOptions = {}, natMap, ...rest } = options;
  refuseForeign(rest);
  refuseForeign(redisOptions);
  const named = cluster.map((node) => said(typeof node === 'string' ? serverOfUrl(node) : typeof node === 'number' ? { port: node } : node));
  const roots = named.map((server) => source(optionsOf({ ...redisOptions, ...server }), make));
  // The login and TLS of a URL hold for all nodes, because the Cluster names the others by their addresses only.
  const { host, port, ...login } = named[0]!;
  return { kind: 'cluster', roots, ofNodes: source(optionsOf({ ...redisOptions, ...login }), make), map: mapped((natMap ?? redisOptions.natMap) as AddressMap) };
}

/** Without what a URL leaves open, which would hide the same among the options for all nodes. */
function said(server: ServerOptions): ServerOptions {
  return Object.fromEntries(Object.entries(server).filter(([, value]) => value !== undefined));
}

function source(given: ClientOptions, make: CreateClient): ClientSource {
  return { given, make };
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

function objectOf(value: unknown): object | undefined {
  return typeof value === 'object' && value !== null ? value : undefined;
}

/** The host and port of a URL of a node. */
export function addressOfUrl(url: string): SocketOptions {
  const { host, port } = serverOfUrl(url);
  return { host, port: port ?? 6379 };
}
