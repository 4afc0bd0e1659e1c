/** Faults of five independent masters. Leases are short here, and so is the quarantine of a master that lost its memory. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from '../../support/redis-server.js';
import { steadyHolder, type Scenario, type Stage } from './fault-run.js';

const MAX_LEASE_MS = 1_500;
const LEASE_MS = 1_200;

/** So many masters, chosen by the seed. */
function some({ topology, random }: Stage, count: number): RedisServer[] {
  const left = [...topology.servers];
  return Array.from({ length: count }, () => left.splice(Math.floor(random() * left.length), 1)[0] as RedisServer);
}

async function restartEmpty(masters: readonly RedisServer[]): Promise<void> {
  await Promise.all(
    masters.map(async (master) => {
      await master.kill();
      await master.restart({ keepData: false });
    }),
  );
}

const common = {
  topology: 'redlock',
  leaseMs: LEASE_MS,
  options: { maxLeaseMs: MAX_LEASE_MS },
  // Without a queue across masters a waiter comes back after a pause of its own.
  idleMs: 2_000,
} as const satisfies Partial<Scenario>;

export const redlockScenarios: readonly Scenario[] = [
  {
    ...common,
    name: 'one of five masters killed and restarted empty',
    losses: 'none',
    fault: (stage) => restartEmpty(some(stage, 1)),
  },
  {
    ...common,
    name: 'two of five masters killed and restarted empty',
    losses: 'none',
    fault: (stage) => restartEmpty(some(stage, 2)),
  },
  {
    ...common,
    name: 'three of five masters killed and restarted empty',
    losses: 'during',
    resumesWithinMs: MAX_LEASE_MS + 2_000,
    fault: (stage) => restartEmpty(some(stage, 3)),
  },
  {
    ...common,
    name: 'masters killed and restarted empty, one after another',
    losses: 'none',
    fault: async (stage) => {
      for (const master of some(stage, 3)) {
        await restartEmpty([master]);
        // The next one fails only when this one takes part again.
        await sleep(MAX_LEASE_MS + 700);
      }
    },
  },
  {
    ...common,
    name: 'one of five masters frozen for two leases',
    losses: 'none',
    fault: async (stage) => {
      const [master] = some(stage, 1);
      await master?.pause();
      await sleep(2 * LEASE_MS);
      await master?.resume();
    },
  },
  {
    ...common,
    name: 'one master frozen while another restarts empty',
    losses: 'none',
    fault: async (stage) => {
      const [frozen, restarted] = some(stage, 2) as [RedisServer, RedisServer];
      await frozen.pause();
      await sleep(0.5 * LEASE_MS);
      await restartEmpty([restarted]);
      await sleep(LEASE_MS);
      await frozen.resume();
    },
  },
  {
    ...common,
    name: 'three of five masters frozen for two leases',
    losses: 'during',
    fault: async (stage) => {
      const masters = some(stage, 3);
      await Promise.all(masters.map((master) => master.pause()));
      await sleep(2 * LEASE_MS);
      await Promise.all(masters.map((master) => master.resume()));
    },
  },
  {
    ...common,
    name: 'the holder cut off from three of five masters for two leases',
    proxied: true,
    losses: 'during',
    fault: async (stage) => {
      const proxies = (stage.topology.proxies[await steadyHolder(stage)] ?? []).slice(0, 3);
      await Promise.all(proxies.map((proxy) => proxy.cut()));
      await sleep(2 * LEASE_MS);
      await Promise.all(proxies.map((proxy) => proxy.heal()));
    },
  },
];
