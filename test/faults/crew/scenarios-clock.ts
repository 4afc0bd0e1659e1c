/** The wall clock of a Redis is set while it serves: one fault that leases counted by the server cannot hide. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from './fault-run.js';

const HOUR_MS = 3_600_000;
const LEASE_MS = 1_000;

function stepped(name: string, offsMs: readonly number[]): Scenario {
  return {
    name,
    topology: 'single',
    clocked: true,
    long: true,
    leaseMs: LEASE_MS,
    losses: 'during',
    // Leases end at once, or early, by the server's clock; holders hear of it at their next renewal.
    overlapMs: LEASE_MS / 3 + 400,
    fault: async ({ topology, random }) => {
      for (const offMs of offsMs) {
        await topology.clock?.set(offMs);
        await sleep(600 + random() * 600);
      }
    },
  };
}

export const clockScenarios: readonly Scenario[] = [
  stepped("the server's clock set an hour forward", [HOUR_MS]),
  stepped("the server's clock set an hour back", [-HOUR_MS]),
  stepped("the server's clock set an hour back and forward again", [-HOUR_MS, 0]),
  stepped("the server's clock set an hour forward and back again", [HOUR_MS, 0]),
  stepped("the server's clock set back and forth by parts of a second", [-400, 300, -700, 0]),
];
