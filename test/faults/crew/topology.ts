/**
 * Where the locks of a fault run live: the servers, and how each process reaches them (directly, or over a proxy of its
 * own that can be broken for it alone).
 */
import type { ClusterOptions } from 'ioredis';
import type { LockModuleOptions } from '../../../lib/nest/lock-module-options.js';
import { SteppedClock } from './stepped-clock.js';
import { startFlakyProxy, type FlakyProxy } from '../../support/flaky-proxy.js';
import { startCluster, type RedisCluster } from '../../support/redis-cluster.js';
import { startSentinel, type SentinelGroup } from '../../support/redis-sentinel.js';
import { startMasters, startRedis, type RedisServer } from '../../support/redis-server.js';

export type TopologyName = 'single' | 'sentinel' | 'cluster' | 'redlock';

/** The servers of one run. Only what belongs to its topology is there. */
export interface Topology {
  readonly name: TopologyName;
  /** Those that hold locks. */
  readonly servers: readonly RedisServer[];
  readonly sentinel?: SentinelGroup;
  readonly cluster?: RedisCluster;
  /** Of the single server, where the scenario sets it. */
  readonly clock?: SteppedClock;
  /** For each process its proxies, one for each server; empty unless the scenario wants them. */
  readonly proxies: readonly (readonly FlakyProxy[])[];
  /** The `redis` option of the process with this number. */
  redisOf(process: number): NonNullable<LockModuleOptions['redis']>;
  stop(): Promise<void>;
}

export interface TopologyWish {
  readonly processes: number;
  readonly proxied: boolean;
  readonly args?: readonly string[];
  readonly downAfterMs?: number | undefined;
  readonly clocked?: boolean | undefined;
}

export async function startTopology(name: TopologyName, { processes, proxied, args = [], downAfterMs = 300, clocked = false }: TopologyWish): Promise<Topology> {
  const base = clocked ? await clockedServer(args) : await servers(name, args, downAfterMs);
  const proxies = await Promise.all(Array.from({ length: proxied ? processes : 0 }, () => Promise.all(base.servers.map(({ port }) => startFlakyProxy(port)))));
  return {
    name,
    ...base,
    proxies,
    redisOf: (process) => redisOf(name, base, proxies[process]),
    stop: async () => {
      await Promise.all(proxies.flat().map((proxy) => proxy.stop()));
      await base.clock?.remove();
      await (base.sentinel ?? base.cluster)?.stop();
      if (base.sentinel === undefined && base.cluster === undefined) await Promise.all(base.servers.map((server) => server.stop()));
    },
  };
}

type Base = Pick<Topology, 'servers' | 'sentinel' | 'cluster' | 'clock'>;

async function clockedServer(args: readonly string[]): Promise<Base> {
  const clock = await SteppedClock.make();
  if (clock === undefined) throw new Error('a server with a clock of its own needs gcc');
  return { servers: [await startRedis({ args, env: clock.env })], clock };
}

async function servers(name: TopologyName, args: readonly string[], downAfterMs: number): Promise<Base> {
  switch (name) {
    case 'single':
      return { servers: [await startRedis({ args })] };
    case 'redlock':
      return { servers: await startMasters(5, { args }) };
    case 'sentinel': {
      const sentinel = await startSentinel({ args, downAfterMs });
      return { servers: sentinel.servers, sentinel };
    }
    case 'cluster': {
      const cluster = await startCluster({ replicasEach: 1, args });
      return { servers: cluster.nodes, cluster };
    }
  }
}

function redisOf(name: TopologyName, base: Base, proxies: readonly FlakyProxy[] | undefined): NonNullable<LockModuleOptions['redis']> {
  const urls = (proxies ?? base.servers).map(({ url }) => url);
  const natMap = proxies && Object.fromEntries(base.servers.map(({ port }, n) => [`127.0.0.1:${port}`, { host: '127.0.0.1', port: proxies[n]?.port ?? port }]));
  switch (name) {
    case 'single':
      return urls[0] as string;
    case 'redlock':
      return urls;
    case 'sentinel':
      return { ...base.sentinel?.options, ...(natMap && { natMap }) };
    case 'cluster': {
      const options: ClusterOptions = natMap ? { natMap } : {};
      return { cluster: base.cluster?.startupNodes ?? [], options };
    }
  }
}

/** Redis keys that an idle module must not leave: everything but fences, the format and epochs, and what a slot group heard after a loss of memory, which ends by itself. */
export async function keysLeft({ servers: all }: Topology): Promise<string[]> {
  const up = all.filter(({ exitCode }) => exitCode === undefined);
  const keys = await Promise.all(
    up.map(async (server) => {
      const [role] = (await server.command('ROLE')) as [string];
      return role === 'master' ? ((await server.command('KEYS', '{lock*')) as string[]) : [];
    }),
  );
  return keys.flat().filter((key) => !/:(f|format|e|q:%heard)$/.test(key));
}
