/**
 * The private connections of a store to one Redis, Sentinel or Cluster. A client of the application only says how to connect: it is never
 * used, closed or reconfigured. The packages of clients are known only by ioredis.ts and node-redis.ts.
 *
 *     commands      for all scripts
 *     replicated()  for renewals with WAIT, which blocks it
 *     subscribe()   for messages
 *
 * Each is made anew for ever, and queues no commands while it is away.
 */
import type { Clock } from '../../core/port/clock.js';
import { ClusterConnection } from './cluster-connection.js';
import type { Route, Whereabouts } from './route.js';
import { ServerConnection, type Listening, type Needs } from './server-connection.js';

/** Makes the connections to one target. A command of the store may take `timeoutMs`. @throws LockUsageError for a target that cannot be */
export type Connect = (timeoutMs: number, clock: Clock) => Connections;

/** `writesNextTurn`: whether a command is written to its socket in the turn of the event loop after the one in which it was sent, as node-redis does. */
export function connectingBy(route: Route, writesNextTurn = false): Connect {
  return (timeoutMs, clock) => new Connections(route, { clock, timeoutMs }, writesNextTurn);
}

/** A connection that is made anew whenever it ends. That to a Cluster has one connection to each master. */
export type Connection = ServerConnection | ClusterConnection;

const SHORTEST_PATIENCE_MS = 1_000;

export class Connections {
  readonly isCluster: boolean;
  readonly commands: Connection;
  /** The name of the node in messages. */
  readonly node: string;
  /** The last error of the connection for commands; undefined once it is open. */
  lastError: Error | undefined;
  private readonly server: Whereabouts | undefined;
  /** By number of replicas: while some wait for theirs, the others have a connection of their own. */
  private readonly replicating = new Map<number, Connection>();

  constructor(
    private readonly route: Route,
    private readonly needs: Needs,
    readonly writesNextTurn: boolean,
  ) {
    this.isCluster = 'cluster' in route;
    this.node = 'cluster' in route ? 'the Cluster' : route.node;
    this.server = 'cluster' in route ? undefined : route.whereabouts(needs);
    this.server?.onMoved?.((to) => this.all().forEach((connection) => connection instanceof ServerConnection && connection.leaveFor(to)));
    const { timeoutMs } = needs;
    this.commands = this.connect(Math.min(timeoutMs, Math.max(SHORTEST_PATIENCE_MS, 0.75 * timeoutMs)));
    this.commands.onError((error) => (this.lastError = error));
    this.commands.onOpen(() => {
      this.lastError = undefined;
      // The others are made anew, so that they lead where the commands go. An idle one outlives a failover when the former master was only frozen.
      for (const connection of this.replicating.values()) if (connection instanceof ServerConnection) connection.drop();
    });
  }

  /** The connection for renewals that so many replicas must acknowledge. It has as much patience as a command has time, because it is silent while it waits for them. */
  replicated(replicas: number): Connection {
    let connection = this.replicating.get(replicas);
    if (connection === undefined) this.replicating.set(replicas, (connection = this.connect(this.needs.timeoutMs)));
    return connection;
  }

  /** Calls `listener` whenever another server may answer from now on, for the Redis keys for which `isConcerned` is true. */
  onChange(listener: (isConcerned: (redisKey: string) => boolean) => void): void {
    this.commands.onEnd((wasOpen) => wasOpen && listener(() => true));
    if (this.commands instanceof ClusterConnection) this.commands.onChange(listener);
  }

  /** Makes a connection for messages, which its maker closes; in a Cluster to any node, because messages reach all of them. */
  subscribe(listening: Listening): ServerConnection {
    return new ServerConnection(async () => this.commands.here()(), this.needs, undefined, listening);
  }

  /** The masters, on each of which SCAN has to run. */
  masters(): readonly ServerConnection[] {
    return this.commands instanceof ClusterConnection ? this.commands.masters() : [this.commands];
  }

  close(): void {
    for (const connection of this.all()) connection.close();
    this.server?.close?.();
  }

  private all(): readonly Connection[] {
    return [this.commands, ...this.replicating.values()];
  }

  private connect(patienceMs: number): Connection {
    const { route, needs } = this;
    return 'cluster' in route ? new ClusterConnection(route.cluster, needs, patienceMs) : new ServerConnection(this.server!.locate, needs, patienceMs);
  }
}
