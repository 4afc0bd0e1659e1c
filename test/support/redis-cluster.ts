/** A Redis Cluster of a test's own, on 127.0.0.1. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, type ClusterOptions } from 'ioredis';
import { startRedis, type RedisServer } from './redis-server.js';

export interface ClusterShape {
  readonly masters?: number;
  readonly replicasEach?: number;
  /** Masters without slots, as one that was just added. */
  readonly spares?: number;
  readonly args?: readonly string[];
}

const SLOTS = 16_384;
const AGREES_WITHIN_MS = 30_000;
/** A node that is silent for so long is held for dead: soon where a replica takes over, and else not when the machine stands still for a moment. */
const NODE_TIMEOUT_MS = { withReplicas: 1_000, alone: 15_000 };

export class RedisCluster {
  private readonly clients: Cluster[] = [];

  constructor(readonly masters: readonly RedisServer[], readonly replicas: readonly RedisServer[], readonly spares: readonly RedisServer[]) {}

  get nodes(): readonly RedisServer[] {
    return [...this.masters, ...this.replicas, ...this.spares];
  }

  /** For `{ cluster: … }` and ioredis. */
  get startupNodes(): { host: string; port: number }[] {
    return this.masters.map(({ port }) => ({ host: '127.0.0.1', port }));
  }

  client(options: ClusterOptions = {}): Cluster {
    const client = new Cluster(this.startupNodes, options);
    client.on('error', () => undefined);
    this.clients.push(client);
    return client;
  }

  async slotOf(redisKey: string): Promise<number> {
    return Number(await this.someNode().command('CLUSTER', 'KEYSLOT', redisKey));
  }

  /** The master that a node that is up holds responsible for a slot; changes with failovers and migrations. */
  async masterOf(slot: number): Promise<RedisServer> {
    const ranges = (await this.someNode().command('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
    const port = ranges.find(([from, to]) => from <= slot && slot <= to)?.[2][1];
    const server = this.nodes.find((node) => node.port === port);
    if (server === undefined) throw new Error(`no node of this cluster serves slot ${slot}`);
    return server;
  }

  /** Opens a slot's migration: its keys may be on either side until `finishMigration`. */
  async beginMigration(slot: number, to: RedisServer): Promise<void> {
    const from = await this.masterOf(slot);
    await to.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', await idOf(from));
    await from.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', await idOf(to));
  }

  /** Moves keys of a migrating slot, at most `count`; how many it moved. */
  async migrateKeys(slot: number, to: RedisServer, count: number): Promise<number> {
    const from = await this.masterOf(slot);
    const keys = (await from.command('CLUSTER', 'GETKEYSINSLOT', slot, count)) as string[];
    await this.migrate(slot, to, ...keys);
    return keys.length;
  }

  /** Moves these Redis keys of a migrating slot, and no others. */
  async migrate(slot: number, to: RedisServer, ...redisKeys: readonly string[]): Promise<void> {
    const from = await this.masterOf(slot);
    for (const redisKey of redisKeys) await from.command('MIGRATE', '127.0.0.1', to.port, redisKey, 0, 5_000);
  }

  async finishMigration(slot: number, to: RedisServer): Promise<void> {
    const from = await this.masterOf(slot);
    while ((await this.migrateKeys(slot, to, 100)) > 0);
    const id = await idOf(to);
    await to.command('CLUSTER', 'SETSLOT', slot, 'NODE', id);
    await from.command('CLUSTER', 'SETSLOT', slot, 'NODE', id);
  }

  async stop(): Promise<void> {
    for (const client of this.clients) client.disconnect();
    await Promise.all(this.nodes.map((node) => node.stop()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  private someNode(): RedisServer {
    const up = this.nodes.find(({ exitCode }) => exitCode === undefined);
    if (up === undefined) throw new Error('every node of this cluster is down');
    return up;
  }
}

export async function startCluster({ masters: masterCount = 3, replicasEach = 0, spares: spareCount = 0, args = [] }: ClusterShape = {}): Promise<RedisCluster> {
  const timeoutMs = replicasEach > 0 ? NODE_TIMEOUT_MS.withReplicas : NODE_TIMEOUT_MS.alone;
  const clustered = ['--cluster-enabled', 'yes', '--cluster-node-timeout', String(timeoutMs), '--repl-diskless-sync-delay', '0', ...args];
  const nodes = await Promise.all(Array.from({ length: masterCount * (1 + replicasEach) + spareCount }, () => startRedis({ args: clustered })));
  const masters = nodes.slice(0, masterCount);
  const replicas = nodes.slice(masterCount, nodes.length - spareCount);
  const cluster = new RedisCluster(masters, replicas, nodes.slice(nodes.length - spareCount));
  try {
    await Promise.all(nodes.map((node, i) => node.command('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)));
    await Promise.all(masters.map((node, i) => node.command('CLUSTER', 'ADDSLOTS', ...slotsOf(i, masterCount))));
    await Promise.all(nodes.map((node) => meet(node, nodes)));
    await until('the nodes know each other', nodes, (node) => knowsAll(node, nodes.length));
    await Promise.all(replicas.map(async (node, i) => node.command('CLUSTER', 'REPLICATE', await idOf(masters[i % masterCount]!))));
    await until('every slot is served', nodes, async (node) => (await info(node)).get('cluster_state') === 'ok');
    await until('replicas follow', replicas, async (node) => ((await node.command('ROLE')) as string[])[3] === 'connected');
    return cluster;
  } catch (error) {
    await cluster.stop();
    throw error;
  }
}

/** By their own names: during a handshake a node counts already, but is called something else. */
async function knowsAll(node: RedisServer, count: number): Promise<boolean> {
  const lines = String(await node.command('CLUSTER', 'NODES')).trim().split('\n');
  return lines.length === count && !lines.some((line) => line.includes('handshake'));
}

async function meet(node: RedisServer, nodes: readonly RedisServer[]): Promise<void> {
  for (const other of nodes) if (other !== node) await node.command('CLUSTER', 'MEET', '127.0.0.1', other.port);
}

function slotsOf(master: number, masterCount: number): number[] {
  const [from, to] = [master, master + 1].map((n) => Math.round((n * SLOTS) / masterCount)) as [number, number];
  return Array.from({ length: to - from }, (_, n) => from + n);
}

const idOf = async (node: RedisServer): Promise<string> => String(await node.command('CLUSTER', 'MYID'));

async function info(node: RedisServer): Promise<Map<string, string>> {
  const text = String(await node.command('CLUSTER', 'INFO'));
  return new Map(text.trim().split('\r\n').map((line) => line.split(':') as [string, string]));
}

async function until(what: string, nodes: readonly RedisServer[], holds: (node: RedisServer) => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + AGREES_WITHIN_MS;
  for (const node of nodes) {
    while (!(await holds(node))) {
      if (Date.now() > deadline) throw new Error(`Cluster: not after ${AGREES_WITHIN_MS} ms: ${what}\n${node.logs}`);
      await sleep(20);
    }
  }
}
