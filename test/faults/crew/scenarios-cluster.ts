/** Faults of a Cluster of three masters with a replica each. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisCluster } from '../../support/redis-cluster.js';
import type { RedisServer } from '../../support/redis-server.js';
import { steadyHolder, type Scenario, type Stage } from './fault-run.js';

const LEASE_MS = 1_500;

function clusterOf({ topology }: Stage): RedisCluster {
  return topology.cluster as RedisCluster;
}

/** Where a lock that is held now lives. */
async function homeOf(stage: Stage, key: string): Promise<{ slot: number; master: RedisServer }> {
  const cluster = clusterOf(stage);
  for (let tries = 0; tries < 200; tries++) {
    for (const node of cluster.nodes) {
      if (node.exitCode !== undefined) continue;
      const [redisKey] = (await node.command('KEYS', `{lock:*}:l:${key}`)) as string[];
      if (redisKey === undefined) continue;
      const slot = await cluster.slotOf(redisKey);
      return { slot, master: await cluster.masterOf(slot) };
    }
    await sleep(5);
  }
  throw new Error(`nobody holds '${key}'`);
}

/** A master other than this one, among those that are up. */
async function anotherMaster(stage: Stage, than: RedisServer): Promise<RedisServer> {
  const found = clusterOf(stage).masters.find((node) => node !== than && node.exitCode === undefined);
  if (found === undefined) throw new Error('there is no other master');
  return found;
}

async function served(cluster: RedisCluster, slot: number, before: RedisServer): Promise<void> {
  const deadline = performance.now() + 15_000;
  while (performance.now() < deadline) {
    const now = await cluster.masterOf(slot).catch(() => before);
    if (now !== before && ((await now.command('ROLE')) as unknown[])[0] === 'master') return;
    await sleep(20);
  }
  throw new Error(`slot ${slot} was not taken over`);
}

export const clusterScenarios: readonly Scenario[] = [
  {
    name: 'a master killed, its replica promoted',
    topology: 'cluster',
    leaseMs: LEASE_MS,
    losses: 'during',
    overlapMs: LEASE_MS / 3 + 700,
    fault: async (stage) => {
      const { slot, master } = await homeOf(stage, 'long');
      await master.kill();
      await served(clusterOf(stage), slot, master);
    },
  },
  {
    name: 'a slot moved to another master',
    topology: 'cluster',
    leaseMs: LEASE_MS,
    losses: 'none',
    fault: async (stage) => {
      const { slot, master } = await homeOf(stage, 'hot');
      const target = await anotherMaster(stage, master);
      await clusterOf(stage).beginMigration(slot, target);
      await clusterOf(stage).finishMigration(slot, target);
    },
  },
  {
    name: 'a slot half-moved for three leases',
    topology: 'cluster',
    leaseMs: LEASE_MS,
    losses: 'none',
    fault: async (stage) => {
      const { slot, master } = await homeOf(stage, 'own-0');
      const target = await anotherMaster(stage, master);
      await clusterOf(stage).beginMigration(slot, target);
      await clusterOf(stage).migrateKeys(slot, target, 1);
      await sleep(3 * LEASE_MS);
      await clusterOf(stage).finishMigration(slot, target);
    },
  },
  {
    name: 'a master frozen for half a lease',
    topology: 'cluster',
    leaseMs: LEASE_MS,
    losses: 'during',
    long: true,
    fault: async (stage) => {
      const { master } = await homeOf(stage, 'long');
      await master.pause();
      await sleep(0.5 * LEASE_MS);
      await master.resume();
    },
  },
  {
    name: 'network to the Cluster gone for the holder for 2.5 leases',
    topology: 'cluster',
    proxied: true,
    leaseMs: 1_000,
    losses: 'during',
    fault: async (stage) => {
      const proxies = stage.topology.proxies[await steadyHolder(stage)] ?? [];
      await Promise.all(proxies.map((proxy) => proxy.cut()));
      await sleep(2.5 * stage.leaseMs);
      await Promise.all(proxies.map((proxy) => proxy.heal()));
    },
  },
];
