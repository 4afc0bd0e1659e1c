/**
 * The private connections of a store by ioredis, made from a URL, options, or a client of the application. Such a client is only
 * copied: it is never used, closed or reconfigured.
 */
import type { Cluster, ClusterNode, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import type { Clock } from '../../../core/port/clock.js';
import { LockUsageError } from '../../../core/port/errors.js';
import { loginFrom } from '../login.js';
import type { ClusterTarget, RedisTarget, ServerOptions } from '../redis-target.js';
import { serverOf } from '../server-url.js';
import { patienceOf, type Address, type Connect, type Connection, type Connections, type Sender, type Subscriber } from '../connections.js';
import { slotOf } from '../key-slot.js';
import { ConnectionGuards, NODE_MOVED } from './connection-guards.js';
import { askedFor, asItStandsIn, type SetLogin } from './connection-login.js';
import { forcedClusterOptions, forcedOptions, isCluster, type Needs } from './connection-options.js';
import { IoredisConnection, type RedisClient } from './ioredis-connection.js';
import { IoredisSubscriber } from './ioredis-subscriber.js';

/** The classes of the package. */
export interface IoredisPackage {
  readonly Redis: typeof Redis;
  readonly Cluster: typeof Cluster;
}

const NAMELESS =
  "its nodes do not name their hosts (cluster-preferred-endpoint-type is unknown-endpoint), which ioredis cannot use; give the option client: 'redis', " +
  'or a Cluster client of node-redis';

/** `ioredis` may be left out for a client of the application, which is copied. */
export function byIoredis(target: RedisTarget, ioredis?: IoredisPackage): Connect {
  return (timeoutMs, clock) => new IoredisConnections(target, ioredis, timeoutMs, clock);
}

export class IoredisConnections implements Connections {
  readonly isCluster: boolean;
  readonly commands: Connection;
  readonly patienceMs: number;
  readonly node: string;
  readonly client: RedisClient;
  lastError: Error | undefined;
  private readonly replicas: IoredisConnection[] = [];
  private readonly needs: Needs;
  private readonly guards: ConnectionGuards;
  private closed = false;

  constructor(
    private readonly target: RedisTarget,
    private readonly ioredis: IoredisPackage | undefined,
    private readonly timeoutMs: number,
    clock: Clock,
  ) {
    this.patienceMs = patienceOf(timeoutMs);
    this.needs = { clock, timeoutMs, isClosed: () => this.closed };
    this.guards = new ConnectionGuards(this.needs);
    const connection = this.connect(this.patienceMs);
    this.client = connection.client;
    this.commands = connection;
    this.isCluster = isCluster(this.client);
    this.node = describe(this.client);
    if (isCluster(this.client)) this.noteNamelessNodes(this.client);
    connection.onError((error) => (this.lastError = error));
    connection.onOpen(() => (this.lastError = undefined));
  }

  /**
   * Finds out why a Cluster that has answered is given up: ioredis says nothing when its nodes do not name their hosts, which it takes for a
   * Cluster without nodes.
   */
  private noteNamelessNodes(client: Cluster): void {
    client.once('+node', (node: Redis) => {
      client.once('close', () => {
        if (this.closed || this.lastError !== undefined) return;
        const asked = node.duplicate({ retryStrategy: null, maxRetriesPerRequest: 0 });
        asked.on('error', () => {});
        const ranges = asked.call('CLUSTER', 'SLOTS') as Promise<readonly (readonly unknown[])[]>;
        const heard = (all: readonly (readonly unknown[])[]): void => {
          const hosts = all.flatMap(([, , ...nodes]) => nodes.map((one) => (Array.isArray(one) ? (one[0] as unknown) : undefined)));
          if (hosts.length > 0 && !hosts.some(Boolean)) this.lastError ??= new Error(NAMELESS);
        };
        void ranges.then(heard, () => {}).finally(() => asked.disconnect());
      });
    });
  }

  replicated(): IoredisConnection {
    // This connection is given as much patience as a command has time, because it is silent while it waits for replicas.
    const made = this.connect(this.timeoutMs);
    made.onError(() => {});
    this.replicas.push(made);
    return made;
  }

  get addressWithTls(): Address | undefined {
    if (isCluster(this.client)) return undefined;
    const { tls, host, port, path, sentinels } = this.client.options;
    if (tls == null || path != null || sentinels != null || host == null || port == null) return undefined;
    return { host, port };
  }

  onChange(listener: (isConcerned: (redisKey: string) => boolean) => void): void {
    const { client } = this;
    client.on('close', () => listener(() => true));
    if (!isCluster(client)) return;
    let masters: readonly (string | undefined)[] = [];
    client.on(NODE_MOVED, ({ options: { host, port } }: Redis) => {
      const before = masters;
      masters = client.slots.map((nodes) => nodes?.[0]);
      listener((redisKey) => {
        const slot = slotOf(redisKey);
        return masters[slot] !== before[slot] || masters[slot] === `${host}:${port}`;
      });
    });
  }

  subscribe(): Subscriber {
    // The news of a flush are a message of a channel by the older protocol only.
    return new IoredisSubscriber(this.anyNode().duplicate({ ...forcedOptions({}, this.needs), retryStrategy: null, protocol: 2 }));
  }

  masters(): readonly Sender[] {
    return isCluster(this.client) ? this.client.nodes('master') : [this.client];
  }

  close(): void {
    this.closed = true;
    this.guards.close();
    for (const client of [this.client, ...this.replicas.map((connection) => connection.client)]) {
      client.disconnect();
      if (!isCluster(client)) client.stream?.destroy();
    }
  }

  private anyNode(): Redis {
    if (!isCluster(this.client)) return this.client;
    const nodes = this.client.nodes('all').filter((node) => node.status === 'ready' || node.status === 'wait');
    const node = nodes[Math.floor(Math.random() * nodes.length)];
    if (node === undefined) throw new Error('no node of the Cluster is connected');
    return node;
  }

  private connect(patienceMs: number): IoredisConnection {
    const { target, needs } = this;
    const client = this.made(patienceMs);
    const setLogin = isIoredis(target) ? asItStandsIn(target) : loginOf(target as OwnTarget, needs);
    if (setLogin !== undefined) this.guards.setLogins(client, setLogin);
    return new IoredisConnection(client, isCluster(client) ? this.guards.watchCluster(client) : this.guards.watch(client));
  }

  private made(patienceMs: number): RedisClient {
    const { target, needs, ioredis } = this;
    if (isIoredis(target)) return copyOf(target, needs, patienceMs);
    if (ioredis === undefined) throw new Error('ioredis was not loaded');
    if (typeof target === 'string') return copyOf(clientOf(target, ioredis), needs, patienceMs);
    if (isClusterTarget(target)) {
      const { cluster, options = {}, credentials } = target;
      // The answer of a node is waited for from before its login was asked for.
      const slotsRefreshTimeout = credentials === undefined ? {} : { slotsRefreshTimeout: 2 * needs.timeoutMs };
      return new ioredis.Cluster([...cluster] as ClusterNode[], { ...forcedClusterOptions(options as ClusterOptions, needs, patienceMs), ...slotsRefreshTimeout });
    }
    const { credentials, sentinelCredentials, ...given } = serverOf(target as ServerOptions);
    const options = given as RedisOptions;
    return new ioredis.Redis({ ...options, ...forcedOptions(options, needs) });
  }
}

/** A target that is no client of the application. */
type OwnTarget = string | ServerOptions | ClusterTarget;

function loginOf(target: OwnTarget, needs: Needs): SetLogin | undefined {
  if (typeof target === 'string') return undefined;
  const { credentials, sentinelCredentials } = 'cluster' in target ? { ...target, sentinelCredentials: undefined } : target;
  return askedFor(loginFrom('credentials', credentials), loginFrom('sentinelCredentials', sentinelCredentials), needs);
}

function copyOf(client: RedisClient, needs: Needs, patienceMs: number): RedisClient {
  if (isCluster(client)) return client.duplicate([], forcedClusterOptions(client.options, needs, patienceMs));
  return client.duplicate(forcedOptions(client.options, needs));
}

/** A client that only parses the URL and is copied then: parameters of a URL win over options given with it, but not over a copy's. */
function clientOf(url: string, { Redis }: IoredisPackage): Redis {
  const client = new Redis(url, { lazyConnect: true });
  // A parameter of the URL may have made it connect at once.
  client.disconnect();
  return client;
}

/** Whether this is a client of ioredis, perhaps of another copy of the package. Clients of other packages have no defineCommand. */
export function isIoredis(target: unknown): target is RedisClient {
  return typeof target === 'object' && target !== null && 'duplicate' in target && 'defineCommand' in target && typeof target.defineCommand === 'function';
}

function isClusterTarget(target: object): target is ClusterTarget {
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
