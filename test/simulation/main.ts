/** Runs the seeds that it is told to, and tells its parent what became of each; `scripts/simulate.mjs` starts it. */
import { simulate } from './simulation.js';
import type { Topology } from './plan.js';

/** What a worker is asked for. */
export interface Job {
  readonly from: number;
  readonly step: number;
  readonly count: number;
  /** Undefined: an eighth of the seeds run on a Redlock, as many with Sentinel, and one of 128 on a Cluster, which takes longest. */
  readonly topology: Topology | undefined;
  readonly profile: string | undefined;
  readonly storeCalls: number;
  readonly trace: boolean;
  /** When to tell all that happened in a seed. */
  readonly account: 'always' | 'failed' | 'never';
}

const job = JSON.parse(process.argv[2] ?? '{}') as Job;
for (let n = 0, seed = job.from; n < job.count; n++, seed += job.step) {
  const topology = job.topology ?? topologyOf(seed);
  const { plan, violations, storeCalls, commands, holds, virtualMs, account } = await simulate(seed, topology, job);
  const told = { seed, topology, profile: plan.profile, violations: violations.slice(0, 10), storeCalls, commands, holds, virtualMs };
  process.send?.({ ...told, account: job.account === 'always' || (job.account === 'failed' && violations.length > 0) ? account() : undefined });
}
process.disconnect?.();

function topologyOf(seed: number): Topology {
  if (seed % 128 === 10) return 'cluster';
  return seed % 8 === 0 ? 'redlock' : seed % 8 === 3 ? 'sentinel' : 'single';
}
