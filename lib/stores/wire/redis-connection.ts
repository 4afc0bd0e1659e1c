/**
 * The private connections to one Redis, Sentinel or Cluster, made from a URL, options, or a client of the application. Such a client
 * is only copied: it is never used, closed or reconfigured.
 *
 *     commands    for all scripts                    reconnects for ever; queues no commands while it is away
 *     replicated  for renewals with WAIT, which      the same; it is made for the first of them
 *                 blocks a connection
 *     subscribe() a new connection for messages      never reconnects: WakeChannel makes a new one
 */
import { Cluster, Redis, type ClusterNode, type ClusterOptions, type RedisOptions } from 'ioredis';
import type { Clock } from '../../core/port/clock.js';
import { LockUsageError } from '../../core/port/errors.js';
import { ConnectionGuards, isCluster, nameWhenReady, type ConnectionState } from './connection-guards.js';
import { forcedClusterOptions, forcedOptions, type Needs } from './connection-options.js';

/** What a user may give as `redis`. */
export type RedisTarget = string | RedisOptions | ClusterTarget | Redis | Cluster;

/** A Redis Cluster, as the option `redis`: some of its nodes, and options of ioredis for the cluster client. */
export interface ClusterTarget {
  readonly cluster: readonly ClusterNode[];
  readonly options?: ClusterOptions | undefined;
}

export type RedisClient = Redis | Cluster;

const SHORTEST_PATIENCE_MS = 1_000;

export class RedisConnections {
  readonly isCluster: boolean;
  readonly commands: RedisClient;
  /** A connection that owes an answer and from which nothing comes for this long, in ms, is given up. */
  readonly patienceMs: number;
  /** The name of the node in messages. */
  readonly node: string;
  /** The last error of the connection for commands; undefined once it is open. */
  lastError: Error | undefined;
  private replicas: RedisClient | undefined;
  private readonly needs: Needs;
  private readonly guards: ConnectionGuards;
  private closed = false;

  constructor(
    private readonly target: RedisTarget,
    private readonly timeoutMs: number,
    clock: Clock,
  ) {
    this.patienceMs = Math.min(timeoutMs, Math.max(SHORTEST_PATIENCE_MS, 0.75 * timeoutMs));
    this.needs = { clock, timeoutMs, isClosed: () => this.closed };
    this.guards = new ConnectionGuards(this.needs);
    const client = this.connect(this.patienceMs);
    this.isCluster = isCluster(client);
    this.node = describe(client);
    this.commands = client;
    client.on('error', (error: Error) => (this.lastError = error));
    this.onOpen(client, () => (this.lastError = undefined));
  }

  get replicated(): RedisClient {
    if (this.replicas === undefined) {
      // This connection is given as much patience as a command has time, because it is silent while it waits for replicas.
      this.replicas = this.connect(this.timeoutMs);
      this.replicas.on('error', () => {});
    }
    return this.replicas;
  }

  /** Calls `listener` whenever another server may answer from now on. */
  onChange(listener: () => void): void {
    for (const event of ['close', '+node', '-node']) this.commands.on(event, listener);
  }

  /** Whether commands can be sent: the client is connected, and the server has answered on the connection. */
  isOpen(client: RedisClient): boolean {
    return this.stateOf(client).isOpen;
  }

  /** Calls `listener` whenever the client becomes open, until the returned function is called. */
  onOpen(client: RedisClient, listener: () => void): () => void {
    return this.guards.onOpen(client, listener);
  }

  /** Makes a connection for a subscriber; in a Cluster to any node, because messages reach all of them. */
  subscribe(): Redis {
    const client = this.anyNode().duplicate({ ...forcedOptions({}, this.needs), retryStrategy: null });
    nameWhenReady(client);
    return client;
  }

  /** The masters, on each of which SCAN has to run. */
  masters(): readonly Redis[] {
    return isCluster(this.commands) ? this.commands.nodes('master') : [this.commands];
  }

  /** The state of one of these connections, which is the same object for the life of the connection. */
  stateOf(client: RedisClient): ConnectionState {
    return this.guards.stateOf(client);
  }

  /** Closes a connection that has stopped answering: the network may have dropped it without a sign to either side. */
  dropStalled(client: RedisClient): void {
    // In a Cluster the option socketTimeout closes the connection to the silent node.
    if (!isCluster(client) && client.status === 'ready') client.stream.destroy();
  }

  close(): void {
    this.closed = true;
    this.guards.close();
    for (const client of [this.commands, this.replicas]) {
      client?.disconnect();
      if (client !== undefined && !isCluster(client)) client.stream?.destroy();
    }
  }

  private anyNode(): Redis {
    if (!isCluster(this.commands)) return this.commands;
    const nodes = this.commands.nodes('all').filter((node) => node.status === 'ready' || node.status === 'wait');
    const node = nodes[Math.floor(Math.random() * nodes.length)];
    if (node === undefined) throw new Error('no node of the Cluster is connected');
    return node;
  }

  private connect(patienceMs: number): RedisClient {
    const target = typeof this.target === 'string' ? clientOf(this.target) : this.target;
    const client = this.made(target, patienceMs);
    if (isCluster(client)) this.guards.watchCluster(client);
    else this.guards.watch(client);
    return client;
  }

  private made(target: Exclude<RedisTarget, string>, patienceMs: number): RedisClient {
    const { needs } = this;
    if (isClient(target)) {
      if (isCluster(target)) return target.duplicate([], forcedClusterOptions(target.options, needs, patienceMs));
      return target.duplicate(forcedOptions(target.options, needs));
    }
    if (isClusterTarget(target)) return new Cluster([...target.cluster], forcedClusterOptions(target.options ?? {}, needs, patienceMs));
    return new Redis({ ...target, ...forcedOptions(target, needs) });
  }
}

/** A client that only parses the URL and is copied then: parameters of a URL win over options given with it, but not over a copy's. */
function clientOf(url: string): Redis {
  const client = new Redis(url, { lazyConnect: true });
  // A parameter of the URL may have made it connect at once.
  client.disconnect();
  return client;
}

/** Whether this is a client of ioredis, perhaps of another copy of the package. Clients of other packages have no defineCommand. */
export function isClient(target: object): target is RedisClient {
  return 'duplicate' in target && 'defineCommand' in target && typeof target.defineCommand === 'function';
}

function isClusterTarget(target: RedisOptions | ClusterTarget): target is ClusterTarget {
  if (!('cluster' in target)) return false;
  if (Array.isArray(target.cluster) && target.cluster.length > 0) return true;
  throw new LockUsageError('Lock options: expected redis.cluster to be a list of at least one node.');
}

function describe(client: RedisClient): string {
  if (isCluster(client)) return 'the Cluster';
  const { path, host, port, sentinels, name } = client.options;
  if (sentinels != null) return `the master '${name}' of Sentinel`;
  return path ?? `${host}:${port}`;
}
