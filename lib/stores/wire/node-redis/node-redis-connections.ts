/**
 * The private connections of a store by node-redis. A client of the application only says how to connect: it is never used, closed or
 * reconfigured.
 */
import { patienceOf, type Address, type Connect, type Connection, type Connections, type Sender, type Subscriber } from '../connections.js';
import { ClusterConnection } from './cluster-connection.js';
import { NodeRedisConnection, NodeRedisSubscriber, type Needs } from './node-redis-connection.js';
import type { NodeRedisTarget } from './node-redis-target.js';

export function byNodeRedis(target: NodeRedisTarget): Connect {
  return (timeoutMs, clock) => new NodeRedisConnections(target, { clock, timeoutMs });
}

class NodeRedisConnections implements Connections {
  readonly isCluster: boolean;
  readonly writesNextTurn = true;
  readonly commands: NodeRedisConnection | ClusterConnection;
  readonly patienceMs: number;
  readonly node: string;
  readonly addressWithTls: Address | undefined;
  lastError: Error | undefined;
  private readonly all: (NodeRedisConnection | ClusterConnection)[] = [];

  constructor(
    private readonly target: NodeRedisTarget,
    private readonly needs: Needs,
  ) {
    this.patienceMs = patienceOf(needs.timeoutMs);
    this.isCluster = 'cluster' in target;
    this.node = 'cluster' in target ? 'the Cluster' : target.node;
    this.addressWithTls = 'cluster' in target ? undefined : target.addressWithTls;
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
    return new NodeRedisSubscriber(this.commands.here(), this.needs);
  }

  masters(): readonly Sender[] {
    const { commands } = this;
    return (commands instanceof ClusterConnection ? commands.masters() : [commands]).map(({ sender }) => sender);
  }

  close(): void {
    for (const connection of this.all) connection.close();
  }

  private connect(patienceMs: number): NodeRedisConnection | ClusterConnection {
    const { target, needs } = this;
    const made = 'cluster' in target ? new ClusterConnection(target.cluster, needs, patienceMs) : new NodeRedisConnection(target.locate(needs), needs);
    this.all.push(made);
    return made;
  }
}
