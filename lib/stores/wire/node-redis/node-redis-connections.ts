/**
 * The private connections of a store by node-redis. A client of the application only says how to connect: it is never used, closed or
 * reconfigured.
 */
import type { Clock } from '../../../core/port/clock.js';
import { patienceOf, type Address, type Connect, type Connection, type Connections, type Sender, type Subscriber } from '../connections.js';
import { ClusterConnection } from './cluster-connection.js';
import type { ClusterEntry } from './cluster-map.js';
import type { ClientSource } from './node-redis-client.js';
import { NodeRedisSubscriber } from './node-redis-subscriber.js';
import { SentinelGuide, type SentinelTarget } from './sentinel-guide.js';
import { SingleConnection, type Locate, type Needs } from './single-connection.js';

/** One server, the master that Sentinels name, or a Cluster. */
export type NodeRedisTarget =
  | { readonly kind: 'server'; readonly source: ClientSource }
  | ({ readonly kind: 'sentinel' } & SentinelTarget)
  | ({ readonly kind: 'cluster' } & ClusterEntry)
  /** The master that a Sentinel client of the application follows. */
  | { readonly kind: 'followed'; readonly locate: Locate };

export function byNodeRedis(target: NodeRedisTarget): Connect {
  return (timeoutMs, clock) => new NodeRedisConnections(target, timeoutMs, clock);
}

class NodeRedisConnections implements Connections {
  readonly isCluster: boolean;
  readonly commands: Connection;
  readonly patienceMs: number;
  readonly node: string;
  lastError: Error | undefined;
  private readonly needs: Needs;
  private readonly link: SingleConnection | ClusterConnection;
  private readonly replicas: (SingleConnection | ClusterConnection)[] = [];

  constructor(
    private readonly target: NodeRedisTarget,
    timeoutMs: number,
    clock: Clock,
  ) {
    this.patienceMs = patienceOf(timeoutMs);
    this.needs = { clock, timeoutMs };
    this.link = this.connect(this.patienceMs);
    this.commands = this.link;
    this.isCluster = target.kind === 'cluster';
    this.node = describe(target);
    this.link.onError((error) => (this.lastError = error));
    this.link.onOpen(() => (this.lastError = undefined));
  }

  replicated(): Connection {
    // This connection is given as much patience as a command has time, because it is silent while it waits for replicas.
    const made = this.connect(this.needs.timeoutMs);
    this.replicas.push(made);
    return made;
  }

  get addressWithTls(): Address | undefined {
    if (this.target.kind !== 'server') return undefined;
    const { socket: { tls, path, host = 'localhost', port = 6379 } = {} } = this.target.source.given;
    return tls === true && path === undefined ? { host, port } : undefined;
  }

  onChange(listener: (isConcerned: (redisKey: string) => boolean) => void): void {
    this.link.onEnd(() => listener(() => true));
    if (this.link instanceof ClusterConnection) this.link.onChange(listener);
  }

  subscribe(): Subscriber {
    return new NodeRedisSubscriber(this.whereMessagesAre(), this.needs);
  }

  masters(): readonly Sender[] {
    return this.link instanceof ClusterConnection ? this.link.masters() : [this.link];
  }

  close(): void {
    this.link.close();
    for (const connection of this.replicas) connection.close();
  }

  /** A subscriber goes to the server that the commands go to, which a Sentinel might name differently by now. */
  private whereMessagesAre(): Locate {
    const { link } = this;
    if (link instanceof ClusterConnection) {
      const source = link.anyNode();
      return () => Promise.resolve(source);
    }
    const { source } = link;
    return link.state.isOpen && source !== undefined ? () => Promise.resolve(source) : this.locate();
  }

  private connect(patienceMs: number): SingleConnection | ClusterConnection {
    if (this.target.kind === 'cluster') return new ClusterConnection(this.target, this.needs, patienceMs);
    return new SingleConnection(this.locate(), this.needs);
  }

  private locate(): Locate {
    const { target, needs } = this;
    if (target.kind === 'cluster') throw new Error('a Cluster has many addresses');
    if (target.kind === 'followed') return target.locate;
    if (target.kind === 'server') return () => Promise.resolve(target.source);
    const guide = new SentinelGuide(target, needs);
    return () => guide.locate();
  }
}

function describe(target: NodeRedisTarget): string {
  if (target.kind === 'cluster') return 'the Cluster';
  if (target.kind === 'followed') return 'the master of Sentinel';
  if (target.kind === 'sentinel') return `the master '${target.name}' of Sentinel`;
  const { socket: { path, host = 'localhost', port = 6379 } = {} } = target.source.given;
  return path ?? `${host}:${port}`;
}
