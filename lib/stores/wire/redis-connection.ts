/**
 * The private connections to one Redis, Sentinel or Cluster, made from a URL, options, or a client that belongs to the
 * application. Such a client is only copied: never used, closed or reconfigured.
 *
 *     commands    all scripts                      reconnects for ever, queues nothing while it is away
 *     replicated  renewals that WAIT, which blocks  the same; made with the first of them
 *     subscribe() a fresh connection for messages   never reconnects: whoever asked for it asks again
 */
import { Cluster, Redis, type ClusterNode, type ClusterOptions, type RedisOptions } from 'ioredis';
import type { Clock } from '../../core/port/clock.js';
import { LockUsageError } from '../../core/port/errors.js';

/** What a user may give as `redis`. */
export type RedisTarget = string | RedisOptions | ClusterTarget | Redis | Cluster;

export interface ClusterTarget {
  readonly cluster: readonly ClusterNode[];
  readonly options?: ClusterOptions | undefined;
}

export type RedisClient = Redis | Cluster;

const CONNECTION_NAME = 'nestjs-holdfast';
const FIRST_RECONNECT_MS = 40;
const LONGEST_RECONNECT_MS = 150;
const NEXT_ROUND_MS = 10;
const SHORTEST_PATIENCE_MS = 1_000;
/** For a connection to be made, and for the first answer on it. */
const CONNECTS_WITHIN_MS = 1_000;
/** A Sentinel has nothing else to do than to answer, and there are others. */
const SENTINEL_ANSWERS_WITHIN_MS = 500;
/** Answers to what was sent together arrive within this time. */
const ENOUGH_MS = 50;

export class RedisConnections {
  readonly isCluster: boolean;
  readonly commands: RedisClient;
  /** A connection that was asked and says nothing at all for so long is to be given up. */
  readonly patienceMs: number;
  /** The node, for messages to people. */
  readonly node: string;
  /** What the commands' connection last complained of. */
  lastError: Error | undefined;
  private replicas: RedisClient | undefined;
  private readonly astray = new WeakSet<RedisClient>();
  private closed = false;

  constructor(
    private readonly target: RedisTarget,
    private readonly timeoutMs: number,
    private readonly clock: Clock,
  ) {
    this.patienceMs = Math.min(timeoutMs, Math.max(SHORTEST_PATIENCE_MS, 0.75 * timeoutMs));
    const client = this.connect(this.patienceMs);
    this.guard(client);
    this.isCluster = isCluster(client);
    this.node = describe(client);
    this.commands = client;
    client.on('error', (error: Error) => (this.lastError = error));
    client.on('ready', () => this.astray.has(client) || (this.lastError = undefined));
  }

  get replicated(): RedisClient {
    if (this.replicas === undefined) {
      // To wait for replicas is to be silent.
      this.replicas = this.connect(this.timeoutMs);
      this.replicas.on('error', () => {});
      this.guard(this.replicas);
    }
    return this.replicas;
  }

  /** Told whenever what answers from now on may be another server. */
  onChange(listener: () => void): void {
    for (const event of ['close', '+node', '-node']) this.commands.on(event, listener);
  }

  /** A connection for a subscriber; on a Cluster to any of its nodes, since messages travel to all. */
  subscribe(): Redis {
    const options = { ...this.forced(), retryStrategy: null, lazyConnect: true };
    if (!isCluster(this.commands)) return this.commands.duplicate(options);
    const nodes = this.commands.nodes('all').filter((node) => node.status === 'ready' || node.status === 'wait');
    const node = nodes[Math.floor(Math.random() * nodes.length)];
    if (node === undefined) throw new Error('no node of the Cluster is connected');
    return node.duplicate({ ...options, readOnly: false });
  }

  /** Where SCAN has to run. */
  masters(): readonly Redis[] {
    return isCluster(this.commands) ? this.commands.nodes('master') : [this.commands];
  }

  /** Whether what this connection answers comes from another database than ours. */
  isAstray(client: RedisClient): boolean {
    return this.astray.has(client);
  }

  /** Gives up a connection that has stopped answering: the network may have forgotten it without telling either side. */
  dropStalled(client: RedisClient): void {
    // On a Cluster socketTimeout does it for the node concerned.
    if (!isCluster(client) && client.status === 'ready') client.stream.destroy();
  }

  close(): void {
    this.closed = true;
    for (const client of [this.commands, this.replicas]) {
      client?.disconnect();
      if (client !== undefined && !isCluster(client)) client.stream?.destroy();
    }
  }

  private connect(patienceMs: number): RedisClient {
    const target = typeof this.target === 'string' ? clientOf(this.target) : this.target;
    if (isClient(target)) {
      if (isCluster(target)) return target.duplicate([], this.forcedForCluster(patienceMs, target.options));
      return target.duplicate(this.forced(target.options));
    }
    if (isClusterTarget(target)) return new Cluster([...target.cluster], this.forcedForCluster(patienceMs, target.options));
    return new Redis({ ...target, ...this.forced(target) });
  }

  /** What no URL, option or copied client may change. */
  private forced(given: RedisOptions = {}): RedisOptions {
    return {
      keyPrefix: '',
      stringNumbers: false,
      enableAutoPipelining: false,
      readOnly: false,
      role: 'master',
      monitor: false,
      lazyConnect: true,
      connectionName: CONNECTION_NAME,
      // An unknown outcome is told at once (but see the Cluster's) and dealt with above; nothing is kept to be sent when nobody
      // wants it any more.
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      autoResubscribe: false,
      enableReadyCheck: false,
      commandTimeout: undefined,
      disconnectTimeout: 50,
      connectTimeout: Math.min(Number(given.connectTimeout) || Infinity, Math.max(500, Math.min(this.timeoutMs, CONNECTS_WITHIN_MS))),
      // One that is frozen would be waited for without end, while others know the new master.
      sentinelCommandTimeout: Math.min(given.sentinelCommandTimeout ?? Infinity, SENTINEL_ANSWERS_WITHIN_MS),
      // Leases are waiting: after a connection that worked the next one is tried almost at once.
      retryStrategy: (tries: number) => (tries === 1 && !this.closed ? FIRST_RECONNECT_MS * (0.5 + Math.random()) : this.reconnectDelay()),
      // ioredis calls it when it has come to the end of its list, which with one Sentinel is every other time.
      sentinelRetryStrategy: (round: number) => (round === 1 && !this.closed ? NEXT_ROUND_MS : this.reconnectDelay()),
      // A master that became a replica: ask again who is the master. Redis 6 says it inside of an error of the script.
      reconnectOnError: firstOf(/^(READONLY|MASTERDOWN)\b|: -READONLY\b/, this.clock),
    };
  }

  private forcedForCluster(patienceMs: number, given: ClusterOptions = {}): ClusterOptions {
    const { retryStrategy, sentinelRetryStrategy, enableOfflineQueue, readOnly, ...forNodes } = this.forced(given.redisOptions);
    return {
      ...given,
      scaleReads: 'master',
      enableAutoPipelining: false,
      enableOfflineQueue: false,
      lazyConnect: true,
      enableReadyCheck: true,
      maxRedirections: 4,
      // Also for what was never sent, because its node is only being connected. What was on its way is sent again as well: the
      // scripts allow that, but a release that had arrived is told 'lost' then.
      retryDelayOnFailover: 100,
      retryDelayOnClusterDown: 100,
      retryDelayOnTryAgain: 10,
      // An idle process asks nothing: a redirection or a lost node (below) is what tells of a change.
      slotsRefreshInterval: 0,
      clusterRetryStrategy: () => this.reconnectDelay(),
      redisOptions: { ...given.redisOptions, ...forNodes, socketTimeout: patienceMs },
    };
  }

  private reconnectDelay(): number | null {
    return this.closed ? null : LONGEST_RECONNECT_MS * (0.5 + 0.5 * Math.random());
  }

  private guard(client: RedisClient): void {
    if (isCluster(client)) return this.keepNodes(client);
    this.dropStuckHandshakes(client);
    this.dropWrongDatabase(client);
  }

  /** ioredis forgets a node whose connection closed until a command needs it; a walk over all nodes would miss it. */
  private keepNodes(client: Cluster): void {
    client.on('-node', () => !this.closed && client.status === 'ready' && client.refreshSlotsCache());
  }

  /** ioredis goes on in database 0, where nobody else's locks are, when a server that is busy refuses the SELECT of a new connection. */
  private dropWrongDatabase(client: Redis): void {
    client.on('error', (error: Error) => {
      if (!isRefusedSelect(error)) return;
      this.astray.add(client);
      client.stream.destroy();
    });
    client.on('close', () => this.astray.delete(client));
  }

  /** A frozen server accepts connections and says nothing: try anew until one of them gets its answer. */
  private dropStuckHandshakes(client: Redis): void {
    client.on('connect', () => {
      const { stream } = client;
      const patienceMs = Math.min(this.timeoutMs, CONNECTS_WITHIN_MS);
      const timer = this.clock.setTimer(() => client.status !== 'ready' && stream.destroy(), patienceMs);
      stream.once('close', () => this.clock.clearTimer(timer));
    });
  }
}

/**
 * True for the first such error in a while: one is enough to leave a server, and ioredis hangs a listener on the socket for
 * each, until Node complains of a leak.
 */
function firstOf(pattern: RegExp, clock: Clock): (error: Error) => boolean {
  let enoughUntil = -Infinity;
  return ({ message }) => {
    const now = clock.now();
    if (now < enoughUntil || !pattern.test(message)) return false;
    enoughUntil = now + ENOUGH_MS;
    return true;
  };
}

function isRefusedSelect(error: Error): boolean {
  return (error as { command?: { name?: unknown } }).command?.name === 'select';
}

/** Made to read the URL: ioredis lets its parameters win over options that are given beside it, but not over a copy's. */
function clientOf(url: string): Redis {
  const client = new Redis(url, { lazyConnect: true });
  // A parameter may want it to connect at once.
  client.disconnect();
  return client;
}

/** A client of ioredis, perhaps of another copy of it: those of other packages do not define commands. */
export function isClient(target: object): target is RedisClient {
  return 'duplicate' in target && 'defineCommand' in target && typeof target.defineCommand === 'function';
}

function isCluster(client: RedisClient): client is Cluster {
  return 'isCluster' in client && client.isCluster === true;
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
