/**
 * A Redis server of the benchmark's own, and what it says about the work it was given.
 */
import { Redis } from 'ioredis';
import { startCluster } from '../../test/support/redis-cluster.js';
import { startMasters as startServers, startRedis, type RedisServer } from '../../test/support/redis-server.js';
import { admitAll } from '../../test/support/redlock-store.js';

/** What one piece of work cost the server. */
export interface ServerCost {
  /** Calls by command name, those made inside scripts included. */
  readonly calls: ReadonlyMap<string, number>;
  /** User and system time of the main thread, in ms. */
  readonly cpuMs: number;
}

/** Servers whose work is counted. */
export interface Measured {
  readonly ports: readonly number[];
  /** Runs `work` and tells what the servers did meanwhile, without the questions asked for it. */
  costOf<T>(work: () => Promise<T>): Promise<{ result: T; cost: ServerCost }>;
}

/** A running server, watched over a connection of its own. */
export interface BenchServer extends Measured {
  readonly port: number;
  readonly version: string;
  readonly probe: Redis;
  reading(): Promise<ServerCost>;
  usedMemory(): Promise<number>;
  stop(): Promise<void>;
}

export async function startServer(): Promise<BenchServer> {
  return watched(await startRedis());
}

/** The masters of a Cluster of the benchmark's own. */
export async function startMasters(): Promise<readonly BenchServer[]> {
  const { masters } = await startCluster({ masters: 3 });
  return Promise.all(masters.map(watched));
}

/** Masters that know nothing of each other, and may vote at once. */
export interface ServerGroup extends Measured {
  /** From now on its work is not counted, for it answers nobody. */
  freeze(server: number): Promise<void>;
  kill(server: number): Promise<void>;
  stop(): Promise<void>;
}

export async function startGroup(count: number): Promise<ServerGroup> {
  const servers = await startServers(count);
  await admitAll(servers);
  const counted = new Set(await Promise.all(servers.map(watched)));
  const all = [...counted];
  return {
    ...together(counted),
    async freeze(at) {
      counted.delete(all[at]!);
      await servers[at]!.pause();
    },
    async kill(at) {
      counted.delete(all[at]!);
      all[at]!.probe.disconnect();
      await servers[at]!.kill();
    },
    stop: async () => void (await Promise.all(all.map((server) => server.stop()))),
  };
}

/** Servers that are measured as one: of those that are among them when the work begins. */
export function together(servers: ReadonlySet<BenchServer>): Measured {
  return {
    ports: [...servers].map(({ port }) => port),
    async costOf(work) {
      const before = await Promise.all([...servers].map(async (server) => ({ server, reading: await server.reading() })));
      const result = await work();
      const costs = await Promise.all(before.map(async ({ server, reading }) => difference(reading, await server.reading())));
      return { result, cost: costs.reduce(sum) };
    },
  };
}

async function watched(server: RedisServer): Promise<BenchServer> {
  const probe = new Redis({ port: server.port, host: '127.0.0.1', maxRetriesPerRequest: 1 });
  const info = async (section: string): Promise<Map<string, string>> => fields(await probe.info(section));
  const reading = async (): Promise<ServerCost> => ({ calls: calls(await probe.info('commandstats')), cpuMs: cpuMs(await info('cpu')) });
  return {
    port: server.port,
    ports: [server.port],
    version: (await info('server')).get('redis_version') ?? 'unknown',
    probe,
    reading,
    async costOf(work) {
      const before = await reading();
      const result = await work();
      return { result, cost: difference(before, await reading()) };
    },
    usedMemory: async () => Number((await info('memory')).get('used_memory')),
    async stop() {
      probe.disconnect();
      await server.stop();
    },
  };
}

/** How many commands of these names a client sent; see `Contender.sends` for why names are needed. */
export function sent(cost: ServerCost, names: readonly string[]): number {
  return names.reduce((sum, name) => sum + (cost.calls.get(name) ?? 0), 0);
}

export function difference(before: ServerCost, after: ServerCost): ServerCost {
  const grown = [...after.calls].map(([name, count]) => [name, count - (before.calls.get(name) ?? 0)] as const);
  return { calls: new Map(grown), cpuMs: after.cpuMs - before.cpuMs };
}

function sum(one: ServerCost, other: ServerCost): ServerCost {
  const calls = new Map(one.calls);
  for (const [name, count] of other.calls) calls.set(name, count + (calls.get(name) ?? 0));
  return { calls, cpuMs: one.cpuMs + other.cpuMs };
}

function fields(text: string): Map<string, string> {
  const pairs = text.split('\r\n').filter((line) => line.includes(':'));
  return new Map(pairs.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]));
}

function calls(text: string): Map<string, number> {
  const stats = [...fields(text)].map(([name, line]) => [name.replace('cmdstat_', ''), Number(/calls=(\d+)/.exec(line)?.[1] ?? 0)] as const);
  return new Map(stats);
}

function cpuMs(cpu: Map<string, string>): number {
  const seconds = (name: string): number => Number(cpu.get(`${name}_main_thread`) ?? cpu.get(name));
  return 1000 * (seconds('used_cpu_user') + seconds('used_cpu_sys'));
}
