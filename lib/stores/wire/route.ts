/**
 * Where a target leads: to one server, to the master that Sentinels name, or to a Cluster.
 * Options are in the words of ioredis, which mean the same with both packages of clients.
 */
import { LockUsageError } from '../../core/port/errors.js';
import type { ClusterEntry } from './cluster-connection.js';
import { loginFrom, type AskLogin, type ClusterTarget, type ServerOptions, said, serverOf, serverOfUrl } from './redis-target.js';
import { SentinelMaster } from './sentinel-master.js';
import type { Address, Locate, Needs, Source } from './server-connection.js';

/** One server, perhaps the master that Sentinels name, or a Cluster. */
export type Route = ServerRoute | { readonly cluster: ClusterEntry };

interface ServerRoute {
  /** Its name in messages. */
  readonly node: string;
  whereabouts(needs: Needs): Whereabouts;
}

/** Where a server is, which may move. */
export interface Whereabouts {
  readonly locate: Locate;
  /** Calls `moved` with the address of the server that takes the place of the present one. */
  onMoved?(moved: (to: Address) => void): void;
  close?(): void;
}

/** Makes a source from options, which are read anew for each connection, and from what is asked for the login. */
export type SourceOf = (read: () => ServerOptions, login?: AskLogin) => Source;

/** Says under which address a server can be reached from here that is named otherwise: by its `host:port`. */
export type AddressMap = Readonly<Record<string, Address>> | ((address: string) => Address | null | undefined) | null | undefined;

const SENTINEL_PORT = 26_379;

/** The route of options, or of a URL. */
export function routeOf(target: string | ServerOptions | ClusterTarget, sourceOf: SourceOf): Route {
  if (typeof target === 'string') return routeOf({ url: target }, sourceOf);
  if ('cluster' in target) return routeToCluster(target, () => target.options?.redisOptions ?? {}, sourceOf);
  const { credentials, sentinelCredentials, ...server } = serverOf(target);
  return routeToServer(() => server, sourceOf, loginFrom('credentials', credentials), loginFrom('sentinelCredentials', sentinelCredentials));
}

/** The route of options that `read` gives, each time as they stand. */
export function routeToServer(read: () => ServerOptions, sourceOf: SourceOf, login?: AskLogin, loginOfSentinels?: AskLogin): Route {
  const { sentinels, name = 'mymaster', natMap, path, host = 'localhost', port = 6379 } = read();
  if (sentinels == null) {
    return routeTo(sourceOf(read, login), path ?? `${host}:${port}`);
  }
  const ofMaster = sourceOf(() => {
    const { enableTLSForSentinelMode, tls: given, ...rest } = read();
    return { ...rest, sentinels: undefined, tls: enableTLSForSentinelMode === true ? given : undefined };
  }, login);
  const ofSentinels = sourceOf(() => {
    const { sentinelUsername, sentinelPassword, sentinelTLS, connectTimeout, family } = read();
    const given = typeof sentinelTLS === 'object' && sentinelTLS !== null ? sentinelTLS : undefined;
    return { username: sentinelUsername ?? undefined, password: sentinelPassword ?? undefined, connectTimeout, family, tls: given };
  }, loginOfSentinels);
  const addresses = sentinels.map(({ host: named = 'localhost', port: at = SENTINEL_PORT }) => ({ host: named, port: at }));
  return routeBySentinels(name, addresses, ofSentinels, ofMaster, natMap as AddressMap);
}

export function routeTo(source: Source, node: string): Route {
  return { node, whereabouts: () => ({ locate: () => Promise.resolve(source) }) };
}

/** `redisOptions` gives the options of all nodes. */
export function routeToCluster({ cluster, options: { natMap, useSRVRecords } = {}, credentials }: ClusterTarget, redisOptions: () => ServerOptions, sourceOf: SourceOf): Route {
  if (!Array.isArray(cluster) || cluster.length === 0) throw new LockUsageError('Lock options: expected redis.cluster to be a list of at least one node.');
  if (useSRVRecords === true) throw new LockUsageError('Lock options: useSRVRecords is not supported; name some nodes of the Cluster.');
  const servers = (cluster as ClusterTarget['cluster']).map((node) => said(typeof node === 'string' ? serverOfUrl(node) : typeof node === 'number' ? { port: node } : node));
  const login = loginFrom('credentials', credentials);
  // The login and TLS of a URL hold for all nodes, because the Cluster names the others by their addresses only.
  const source = (server: ServerOptions): Source => sourceOf(() => ({ ...redisOptions(), ...server, host: undefined, port: undefined, db: 0 }), login);
  const roots = servers.map((server) => ({ ...source(server), address: { host: server.host ?? 'localhost', port: server.port ?? 6379 } }));
  return { cluster: { roots, ofNodes: source(servers[0]!), map: mapped((natMap ?? redisOptions().natMap) as AddressMap) } };
}

export function mapped(map: AddressMap): (address: Address) => Address {
  return ({ host, port }) => (typeof map === 'function' ? map(`${host}:${port}`) : map?.[`${host}:${port}`]) ?? { host, port };
}

export function routeBySentinels(name: string, sentinels: readonly Address[], ofSentinels: Source, ofMaster: Source, natMap: AddressMap): Route {
  const map = mapped(natMap);
  return { node: `the master '${name}' of Sentinel`, whereabouts: (needs) => new SentinelMaster(name, sentinels, ofSentinels, ofMaster, map, needs) };
}
