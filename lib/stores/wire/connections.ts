/**
 * The private connections of a store to one Redis, to the master that Sentinels name, or to a Cluster. A client of the application only says
 * how to connect: it is never used, closed or reconfigured. The packages of clients are known only by ioredis.ts and node-redis.ts; options
 * are in the words of ioredis, which mean the same with both.
 *
 *     commands      for all scripts
 *     replicated()  for renewals with WAIT, which blocks it
 *     subscribe()   for messages
 *
 * Each is made anew for ever, and queues no commands while it is away.
 */
import type { Clock } from '../../core/port/clock.js';
import { LockUsageError } from '../../core/port/errors.js';
import { ClusterConnection, type ClusterEntry } from './cluster-connection.js';
import { loginFrom, type AskLogin, type ClusterTarget, type ServerOptions, said, serverOf, serverOfUrl } from './redis-target.js';
import { routeBySentinels } from './sentinel-master.js';
import { mapped, ServerConnection, type Address, type AddressMap, type Listening, type Locate, type Timing, type Source } from './server-connection.js';

/** Makes the connections to one target. A command of the store may take `timeoutMs`. @throws LockUsageError for a target that cannot be */
export type Connect = (timeoutMs: number, clock: Clock) => Connections;

/**
 * Makes the connections that lead by this route. `writesNextTurn`: a command is written to its socket in the turn of the event loop after the one
 * in which it was sent, as node-redis does.
 */
export function connectingBy(route: Route, writesNextTurn = false): Connect {
  return (timeoutMs, clock) => new Connections(route, { clock, timeoutMs }, writesNextTurn);
}

/** A connection that is made anew whenever it ends. That to a Cluster has one connection to each master. */
export type Connection = ServerConnection | ClusterConnection;

/** Where a target leads. */
export interface Route {
  /** Its name in messages. */
  readonly node: string;
  /** `moved` is called with the address of the server that takes the place of the present one. */
  begin(timing: Timing, moved: (to: Address) => void): Master | ClusterEntry;
}

/** A server that is located anew for each connection. */
export interface Master {
  readonly locate: Locate;
  close?(): void;
}

export class Connections {
  readonly isCluster: boolean;
  readonly commands: Connection;
  /** The name of the node in messages. */
  readonly node: string;
  /** The last error of the connection for commands; undefined once it is open. */
  lastError: Error | undefined;
  private readonly to: Master | ClusterEntry;
  /** By number of replicas: while some wait for theirs, the others have a connection of their own. */
  private readonly replicating = new Map<number, Connection>();

  constructor(
    route: Route,
    private readonly timing: Timing,
    readonly writesNextTurn: boolean,
  ) {
    this.node = route.node;
    this.to = route.begin(timing, (to) => this.all().forEach((connection) => connection instanceof ServerConnection && connection.leaveFor(to)));
    this.commands = this.connect();
    this.isCluster = this.commands instanceof ClusterConnection;
    this.commands.events.on('problem', (error) => (this.lastError = error));
    this.commands.events.on('open', () => {
      this.lastError = undefined;
      // The others are made anew, so that they lead where the commands go. An idle one outlives a failover from a master that was only frozen.
      for (const connection of this.replicating.values()) if (connection instanceof ServerConnection) connection.drop();
    });
  }

  /** The connection for renewals that so many replicas must acknowledge. */
  replicated(replicas: number): Connection {
    let connection = this.replicating.get(replicas);
    if (connection === undefined) this.replicating.set(replicas, (connection = this.connect()));
    return connection;
  }

  /**
   * Makes a connection for messages, which its maker closes; in a Cluster to any node, because messages reach all of them. They do not reach one
   * that was taken out of the Cluster, or is cut off from it.
   */
  subscribe(listening: Listening): ServerConnection {
    const connection = new ServerConnection(() => this.commands.here(), this.timing, listening);
    this.commands.events.on('left', (source) => connection.source === source && connection.leave(new Error('its node has no slots any more')));
    return connection;
  }

  /** The masters, on each of which SCAN has to run. */
  masters(): readonly ServerConnection[] {
    return this.commands instanceof ClusterConnection ? this.commands.masters() : [this.commands];
  }

  close(): void {
    for (const connection of this.all()) connection.close();
    if ('close' in this.to) this.to.close?.();
  }

  private connect(): Connection {
    const { to, timing } = this;
    return 'roots' in to ? new ClusterConnection(to, timing) : new ServerConnection(to.locate, timing);
  }

  private all(): readonly Connection[] {
    return [this.commands, ...this.replicating.values()];
  }
}

/** Makes a source from options, which are read anew for each connection, and from what is asked for the login. */
export type SourceOf = (read: () => ServerOptions, login?: AskLogin) => Source;

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
  if (sentinels == null) return routeTo(path ?? `${host}:${port}`, sourceOf(read, login));
  const ofMaster = sourceOf(() => {
    const { enableTLSForSentinelMode, tls: given, ...rest } = read();
    return { ...rest, sentinels: undefined, tls: enableTLSForSentinelMode === true ? given : undefined };
  }, login);
  const ofSentinels = sourceOf(() => {
    const { sentinelUsername, sentinelPassword, sentinelTLS, family } = read();
    const given = typeof sentinelTLS === 'object' && sentinelTLS !== null ? sentinelTLS : undefined;
    return { username: sentinelUsername ?? undefined, password: sentinelPassword ?? undefined, family, tls: given };
  }, loginOfSentinels);
  const addresses = sentinels.map(({ host: named = 'localhost', port: at = SENTINEL_PORT }) => ({ host: named, port: at }));
  return routeBySentinels(name, addresses, ofSentinels, ofMaster, natMap as AddressMap);
}

export function routeTo(node: string, source: Source): Route {
  return { node, begin: () => ({ locate: () => Promise.resolve(source) }) };
}

/** `redisOptions` gives the options of all nodes. */
export function routeToCluster(
  { cluster, options: { natMap, useSRVRecords } = {}, credentials }: ClusterTarget, redisOptions: () => ServerOptions, sourceOf: SourceOf,
): Route {
  if (useSRVRecords === true) throw new LockUsageError('Lock options: useSRVRecords is not supported; name some nodes of the Cluster.');
  const servers = cluster.map((node) => typeof node === 'string' ? serverOfUrl(node) : typeof node === 'number' ? { port: node } : said(node));
  const login = loginFrom('credentials', credentials);
  // The login and TLS of a URL hold for all nodes, because the Cluster names the others by their addresses only.
  const source = (server: ServerOptions): Source => sourceOf(() => ({ ...redisOptions(), ...server, host: undefined, port: undefined, db: 0 }), login);
  const roots = servers.map((server) => ({ ...source(server), address: { host: server.host ?? 'localhost', port: server.port ?? 6379 } }));
  return routeByNodes({ roots, ofNodes: source(servers[0]!), map: mapped((natMap ?? redisOptions().natMap) as AddressMap) });
}

export function routeByNodes(entry: ClusterEntry): Route {
  return { node: 'the Cluster', begin: () => entry };
}

