/** Runs the seeds that it is told to, and tells its parent what became of each; `scripts/simulate.mjs` starts it. */
import { simulate } from './simulation.js';
import type { Topology } from './plan.js';

/** What a worker is asked for. */
export interface Job {
  readonly from: number;
  readonly step: number;
  readonly count: number;
  /** Undefined: an eighth of the seeds run on a Redlock, and as many with Sentinel. */
  readonly topology: Topology | undefined;
  readonly profile: string | undefined;
  readonly storeCalls: number;
  readonly trace: boolean;
  /** When to tell all that happened in a seed. */
  readonly account: 'always' | 'failed' | 'never';
}

/** The topologies of seeds by their remainder. */
const DRAWN: Readonly<Record<number, Topology>> = { 0: 'redlock', 3: 'sentinel' };

const job = JSON.parse(process.argv[2] ?? '{}') as Job;
for (let n = 0, seed = job.from; n < job.count; n++, seed += job.step) {
  const topology = job.topology ?? DRAWN[seed % 8] ?? 'single';
  const { plan, violations, storeCalls, commands, holds, virtualMs, account } = await simulate(seed, topology, job);
  const told = { seed, topology, profile: plan.profile, violations: violations.slice(0, 10), storeCalls, commands, holds, virtualMs };
  process.send?.({ ...told, account: job.account === 'always' || (job.account === 'failed' && violations.length > 0) ? account() : undefined });
}
process.disconnect?.();
