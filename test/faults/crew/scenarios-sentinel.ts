/** Faults of a master with a replica, watched by a Sentinel. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { SentinelGroup } from '../../support/redis-sentinel.js';
import type { RedisServer } from '../../support/redis-server.js';
import type { Scenario, Stage } from './fault-run.js';

const LEASE_MS = 1_500;
/** For a Sentinel whose old master lives on (redis-sentinel.ts). */
const STEADY_MS = 1_200;
/** A grant that the new master never heard of is noticed at the next renewal, once the client has found that master. */
const NOTICED_WITHIN_MS = LEASE_MS / 3 + 700;

function groupOf({ topology }: Stage): SentinelGroup {
  return topology.sentinel as SentinelGroup;
}

async function pair(stage: Stage): Promise<{ master: RedisServer; replica: RedisServer }> {
  const master = await groupOf(stage).master();
  return { master, replica: stage.topology.servers.find((server) => server !== master) as RedisServer };
}

/** Ends replication without the replica being able to take it up again: all that is granted from here on is lost with the master. */
async function cutReplication(master: RedisServer, replica: RedisServer): Promise<void> {
  await replica.pause();
  await master.command('CLIENT', 'KILL', 'TYPE', 'replica');
}

export const sentinelScenarios: readonly Scenario[] = [
  {
    name: 'failover with replication cut before the grant',
    topology: 'sentinel',
    leaseMs: LEASE_MS,
    losses: 'during',
    overlapMs: NOTICED_WITHIN_MS,
    fault: async (stage) => {
      const { master, replica } = await pair(stage);
      await cutReplication(master, replica);
      await sleep(200 + stage.random() * 300);
      await master.kill();
      await replica.resume();
      await groupOf(stage).masterAfter(master);
    },
  },
  {
    name: 'failover that an operator asked for',
    topology: 'sentinel',
    downAfterMs: STEADY_MS,
    leaseMs: LEASE_MS,
    losses: 'during',
    overlapMs: NOTICED_WITHIN_MS,
    fault: async (stage) => void (await groupOf(stage).failover()),
  },
  {
    name: 'master killed, its replica promoted',
    topology: 'sentinel',
    leaseMs: LEASE_MS,
    losses: 'during',
    overlapMs: NOTICED_WITHIN_MS,
    fault: async (stage) => {
      const { master } = await pair(stage);
      await master.kill();
      await groupOf(stage).masterAfter(master);
    },
  },
  {
    name: 'master frozen until it is replaced, and back as a replica',
    topology: 'sentinel',
    splitBrain: true,
    downAfterMs: STEADY_MS,
    leaseMs: LEASE_MS,
    losses: 'during',
    overlapMs: NOTICED_WITHIN_MS,
    fault: async (stage) => {
      const { master } = await pair(stage);
      await master.pause();
      await groupOf(stage).masterAfter(master);
      await sleep(stage.random() * 400);
      await master.resume();
    },
  },
  {
    name: 'replication cut, grants that a replica must acknowledge',
    topology: 'sentinel',
    downAfterMs: STEADY_MS,
    leaseMs: LEASE_MS,
    losses: 'during',
    options: { minReplicas: 1 },
    fault: async (stage) => {
      const { master, replica } = await pair(stage);
      await cutReplication(master, replica);
      await sleep(800);
      await master.kill();
      await replica.resume();
      const promoted = await groupOf(stage).masterAfter(master);
      // The old master comes back as the replica that acknowledges from now on.
      await master.start(['--replicaof', '127.0.0.1', String(promoted.port)]);
      while (((await promoted.command('ROLE')) as unknown[][])[2]?.length !== 1) await sleep(20);
    },
  },
];
