/**
 * Where a target leads: to one server, to the master that Sentinels name, or to a Cluster; and the connections of a store that go there.
 * Options are in the words of ioredis, which mean the same with both packages of clients.
 */
import type { Timer } from '../../core/port/clock.js';
import { LockUsageError, messageOf } from '../../core/port/errors.js';
import { ClusterConnection, type ClusterEntry } from './cluster-connection.js';
import { patienceOf, type Address, type Connect, type Connection, type Connections, type Sender, type Subscriber } from './connections.js';
import { loginFrom, type AskLogin, type ClusterTarget, type ServerOptions, said, serverOf, serverOfUrl } from './redis-target.js';
import { LiveConnection, MessageConnection, ServerConnection, type Locate, type Needs, type Source } from './server-connection.js';

/** One server, perhaps the master that Sentinels name, or a Cluster. */
export type Route = ServerRoute | { readonly cluster: ClusterEntry };

interface ServerRoute {
  /** Its name in messages. */
  readonly node: string;
  locate(needs: Needs): Locate;
  /** The address of a server that is asked for TLS. */
  readonly addressWithTls?: Address | undefined;
}

/** Makes a source from options, which are read anew for each connection, and from what is asked for the login. */
export type SourceOf = (read: () => ServerOptions, login?: AskLogin) => Source;

/** Says under which address a server can be reached from here that is named otherwise: by its `host:port`. */
export type AddressMap = Readonly<Record<string, Address>> | ((address: string) => Address | null | undefined) | null | undefined;

const SENTINEL_PORT = 26_379;
/** How long a Sentinel may take to answer, in ms. It is short, because a Sentinel has little to do, and others can be asked. */
const SENTINEL_ANSWERS_WITHIN_MS = 500;

/** The route of options, or of a URL. */
export function routeOf(target: string | ServerOptions | ClusterTarget, sourceOf: SourceOf): Route {
  if (typeof target === 'string') return routeOf({ url: target }, sourceOf);
  if ('cluster' in target) return routeToCluster(target, () => target.options?.redisOptions ?? {}, sourceOf);
  const { credentials, sentinelCredentials, ...server } = serverOf(target);
  return routeToServer(() => server, sourceOf, loginFrom('credentials', credentials), loginFrom('sentinelCredentials', sentinelCredentials));
}

/** The route of options that `read` gives, each time as they stand. */
export function routeToServer(read: () => ServerOptions, sourceOf: SourceOf, login?: AskLogin, loginOfSentinels?: AskLogin): Route {
  const { sentinels, name = 'mymaster', natMap, tls, path, host = 'localhost', port = 6379 } = read();
  if (sentinels == null) {
    return routeTo(sourceOf(read, login), path ?? `${host}:${port}`, tls != null && path == null ? { host, port } : undefined);
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

export function routeTo(source: Source, node: string, addressWithTls?: Address): Route {
  return { node, locate: () => () => Promise.resolve(source), addressWithTls };
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

/**
 * Asks the Sentinels for the address of the master, one after another, each over a connection of its own. The Sentinel that answered is
 * asked first the next time, and those that it knows are asked too. What the packages have for this waits without end for a Sentinel that
 * is frozen, though others would answer, or says too little of what failed.
 */
export function routeBySentinels(name: string, sentinels: readonly Address[], ofSentinels: Source, ofMaster: Source, natMap: AddressMap): Route {
  const map = mapped(natMap);
  let known = sentinels;
  const locate = async (needs: Needs): Promise<Source> => {
    let last: unknown;
    for (const sentinel of known) {
      try {
        const { master, others } = await askSentinel({ ...ofSentinels, address: map(sentinel) }, name, needs);
        known = [...new Map([sentinel, ...known, ...others].map((address) => [`${address.host}:${address.port}`, address])).values()];
        return { ...ofMaster, address: map(master) };
      } catch (error) {
        last = error;
      }
    }
    throw new Error(`no Sentinel names the master '${name}'. Last error: ${messageOf(last)}`, { cause: last });
  };
  return { node: `the master '${name}' of Sentinel`, locate: (needs) => () => locate(needs) };
}

async function askSentinel(sentinel: Source, name: string, needs: Needs): Promise<{ master: Address; others: readonly Address[] }> {
  const live = new LiveConnection(sentinel, needs, undefined, SENTINEL_ANSWERS_WITHIN_MS);
  let timer: Timer | undefined;
  try {
    const { sender } = await live.open();
    timer = needs.clock.setTimer(() => live.end(), SENTINEL_ANSWERS_WITHIN_MS);
    const found = await sender.call('sentinel', 'GET-MASTER-ADDR-BY-NAME', name);
    if (!Array.isArray(found)) throw new Error(`the Sentinel ${sentinel.address.host}:${sentinel.address.port} does not know it`);
    const others = await sender.call('sentinel', 'SENTINELS', name).catch(() => []);
    return { master: { host: String(found[0]), port: Number(found[1]) }, others: addressesIn(others) };
  } finally {
    if (timer !== undefined) needs.clock.clearTimer(timer);
    live.end();
  }
}

/** Each Sentinel is told as a list of names and values. */
function addressesIn(reply: unknown): readonly Address[] {
  if (!Array.isArray(reply)) return [];
  return reply.filter(Array.isArray).flatMap((fields: unknown[]) => {
    const [host, port] = ['ip', 'port'].map((name) => fields[fields.indexOf(name) + 1]);
    return fields.includes('ip') && fields.includes('port') ? [{ host: String(host), port: Number(port) }] : [];
  });
}

export function connectingBy(route: Route, writesNextTurn = false): Connect {
  return (timeoutMs, clock) => new RouteConnections(route, { clock, timeoutMs }, writesNextTurn);
}

/** The private connections of a store. A client of the application only says how to connect: it is never used, closed or reconfigured. */
class RouteConnections implements Connections {
  readonly isCluster: boolean;
  readonly commands: ServerConnection | ClusterConnection;
  readonly patienceMs: number;
  readonly node: string;
  readonly addressWithTls: Address | undefined;
  lastError: Error | undefined;
  private readonly all: (ServerConnection | ClusterConnection)[] = [];

  constructor(
    private readonly route: Route,
    private readonly needs: Needs,
    readonly writesNextTurn: boolean,
  ) {
    this.patienceMs = patienceOf(needs.timeoutMs);
    this.isCluster = 'cluster' in route;
    this.node = 'cluster' in route ? 'the Cluster' : route.node;
    this.addressWithTls = 'cluster' in route ? undefined : route.addressWithTls;
    this.commands = this.connect(this.patienceMs);
    this.commands.onError((error) => (this.lastError = error));
    this.commands.onOpen(() => (this.lastError = undefined));
  }

  replicated(): Connection {
    // This connection is given as much patience as a command has time, because it is silent while it waits for replicas.
    return this.connect(this.needs.timeoutMs);
  }

  onChange(listener: (isConcerned: (redisKey: string) => boolean) => void): void {
    this.commands.onEnd(() => listener(() => true));
    if (this.commands instanceof ClusterConnection) this.commands.onChange(listener);
  }

  subscribe(): Subscriber {
    return new MessageConnection(this.commands.here(), this.needs);
  }

  masters(): readonly Sender[] {
    return this.commands instanceof ClusterConnection ? this.commands.masters() : [this.commands.sender];
  }

  close(): void {
    for (const connection of this.all) connection.close();
  }

  private connect(patienceMs: number): ServerConnection | ClusterConnection {
    const { route, needs } = this;
    const made = 'cluster' in route ? new ClusterConnection(route.cluster, needs, patienceMs) : new ServerConnection(route.locate(needs), needs);
    this.all.push(made);
    return made;
  }
}
