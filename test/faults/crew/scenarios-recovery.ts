/**
 * Servers that lose their memory while leases of 30 s are held: nobody else may be let in, for all holders reach the store within
 * recoveryMs. Two that are sure of one lock for any time at all break the run.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from '../../support/redis-server.js';
import { steadyHolder, type Scenario, type Stage } from './fault-run.js';

const LEASE_MS = 30_000;
/** The default of applications; NODE_ENV is test here, where it is 0. */
const RECOVERY_MS = 1_000;
const RESUMES_WITHIN_MS = 3_500;
/** Where the server waits for a whole lease (`recoveryMs: 'lease'`). */
const LONGEST_LEASE_MS = 3_000;

const recovering = { leaseMs: LEASE_MS, losses: 'ended', recoveryMs: RECOVERY_MS, options: { recoveryMs: RECOVERY_MS }, resumesWithinMs: RESUMES_WITHIN_MS, idleMs: 3_500 } as const;

/**
 * What older records have of holders that have released since stays taken until the end of their leases: nobody can tell them from holders
 * that are cut off.
 */
const ofOlderRecords = { leaseMs: 4_000, resumesWithinMs: 6_000, idleMs: 6_000 } as const;

function serverOf({ topology }: Stage): RedisServer {
  return topology.servers[0]!;
}

/** The server writes a snapshot, and grants and renews leases for a while that are not in it. */
async function outdatedSnapshot(stage: Stage): Promise<void> {
  await serverOf(stage).command('SAVE');
  await sleep(300 + stage.random() * 700);
}

/** Replication ends without the replica being able to take it up again: what is granted from here on is lost with the master. */
async function loseWhatFollows(master: RedisServer, replica: RedisServer): Promise<void> {
  await replica.pause();
  await master.command('CLIENT', 'KILL', 'TYPE', 'replica');
}

/** The master of a Cluster under which the seed puts the fault. */
function someMaster({ topology, random }: Stage): RedisServer {
  const { masters } = topology.cluster!;
  return masters[Math.floor(random() * masters.length)]!;
}

async function promoted(replica: RedisServer): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (((await replica.command('ROLE')) as unknown[])[0] !== 'master') {
    if (performance.now() > deadline) throw new Error('the replica was not promoted');
    await sleep(20);
  }
}

export const recoveryScenarios: readonly Scenario[] = [
  {
    ...recovering,
    name: 'recovery of a server that was killed and restarted empty',
    topology: 'single',
    fault: async (stage) => {
      await serverOf(stage).kill();
      await sleep(stage.random() * 600);
      await serverOf(stage).restart({ keepData: false });
    },
  },
  {
    ...recovering,
    name: 'recovery of a server that was flushed',
    topology: 'single',
    fault: async (stage) => void (await serverOf(stage).command('FLUSHALL')),
  },
  {
    ...recovering,
    name: 'recovery of a server that forgets again while it recovers',
    topology: 'single',
    fault: async (stage) => {
      await serverOf(stage).command('FLUSHALL');
      for (let times = 0; times < 2; times++) {
        await sleep(stage.random() * 700);
        await serverOf(stage).command('FLUSHALL');
      }
    },
  },
  {
    ...recovering,
    leaseMs: LONGEST_LEASE_MS,
    recoveryMs: LONGEST_LEASE_MS,
    options: { maxLeaseMs: LONGEST_LEASE_MS, recoveryMs: 'lease' },
    resumesWithinMs: RESUMES_WITHIN_MS + LONGEST_LEASE_MS,
    idleMs: RESUMES_WITHIN_MS + LONGEST_LEASE_MS,
    name: 'recovery for a whole lease, in which a holder cannot reach the server',
    topology: 'single',
    proxied: true,
    fault: async (stage) => {
      const proxies = stage.topology.proxies[await steadyHolder(stage)]!;
      await Promise.all(proxies.map((proxy) => proxy.cut()));
      await serverOf(stage).command('FLUSHALL');
      await sleep(LONGEST_LEASE_MS + stage.random() * 500);
      await Promise.all(proxies.map((proxy) => proxy.heal()));
    },
  },
  {
    ...recovering,
    ...ofOlderRecords,
    name: 'recovery of a server that was killed and restarted with an older snapshot',
    topology: 'single',
    fault: async (stage) => {
      await outdatedSnapshot(stage);
      await serverOf(stage).kill();
      await serverOf(stage).start();
    },
  },
  {
    ...recovering,
    ...ofOlderRecords,
    // What it grants before the processes have heard of it is not undone: who held it is told.
    losses: 'during',
    overlapMs: 100,
    name: 'recovery of a running server that loads an older snapshot',
    topology: 'single',
    long: true,
    fault: async (stage) => {
      await outdatedSnapshot(stage);
      await serverOf(stage).command('DEBUG', 'RELOAD', 'NOSAVE');
    },
  },
  {
    ...recovering,
    ...ofOlderRecords,
    name: 'recovery after a failover with replication cut before the grant',
    topology: 'sentinel',
    fault: async (stage) => {
      const sentinel = stage.topology.sentinel!;
      const master = await sentinel.master();
      const replica = stage.topology.servers.find((server) => server !== master)!;
      await loseWhatFollows(master, replica);
      await sleep(200 + stage.random() * 300);
      await master.kill();
      await replica.resume();
      await sentinel.masterAfter(master);
    },
  },
  {
    ...recovering,
    name: 'recovery of a master of a Cluster that was flushed',
    topology: 'cluster',
    long: true,
    // No connection breaks, and each slot group recovers from the first script that reaches it: some only when who holds its lock for 4 s asks again.
    resumesWithinMs: 6_500,
    fault: async (stage) => void (await someMaster(stage).command('FLUSHALL')),
  },
  {
    ...recovering,
    name: 'recovery of a master of a Cluster that was killed and restarted empty',
    topology: 'cluster',
    long: true,
    resumesWithinMs: 8_000,
    idleMs: 8_000,
    fault: async (stage) => {
      const master = someMaster(stage);
      await master.kill();
      await master.restart({ keepData: false });
    },
  },
  {
    ...recovering,
    leaseMs: 4_000,
    resumesWithinMs: 8_000,
    idleMs: 8_000,
    name: 'recovery of a Cluster after the promotion of a replica without the grants',
    topology: 'cluster',
    long: true,
    fault: async (stage) => {
      const cluster = stage.topology.cluster!;
      const master = someMaster(stage);
      const replica = cluster.replicas[cluster.masters.indexOf(master)]!;
      await loseWhatFollows(master, replica);
      await sleep(200 + stage.random() * 300);
      await master.kill();
      await replica.resume();
      await promoted(replica);
    },
  },
];
