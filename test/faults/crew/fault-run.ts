/**
 * One fault run: servers, several processes that want the same locks, a fault, and a verdict.
 *
 *     start ──▶ warm (every key was granted) ──▶ fault ──▶ healed ──▶ served again ──▶ stop ──▶ judge
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { LockModuleOptions } from '../../../lib/nest/lock-module-options.js';
import type { Crew, CrewMember } from './crew.js';
import type { FencedResource } from './fenced-resource.js';
import { judge, type Verdict } from './judge.js';
import { seededRandom, type Random } from './random.js';
import { monotonicNow, watchLoop } from './late-turns.js';
import type { CallerPlan } from './stay-record.js';
import { keysLeft, startTopology, type Topology, type TopologyName } from './topology.js';
import { usualPlans } from './plans.js';
import type { Allowance, Outage } from './trial.js';
import { TEST_CLIENT } from '../../support/test-client.js';

/** What a fault can lay its hands on. */
export interface Stage {
  readonly topology: Topology;
  readonly crew: readonly CrewMember[];
  readonly random: Random;
  readonly leaseMs: number;
}

export interface Scenario extends Allowance {
  readonly name: string;
  readonly topology: TopologyName;
  /** Breaks something and repairs it. Resolves at the moment from which service must come back. */
  readonly fault: (stage: Stage) => Promise<void>;
  readonly proxied?: boolean;
  readonly processes?: number;
  readonly leaseMs?: number;
  readonly options?: Partial<LockModuleOptions>;
  readonly plans?: (process: number, leaseMs: number) => readonly CallerPlan[];
  /** Only in the long runs. */
  readonly long?: boolean;
  readonly serverArgs?: readonly string[];
  /** How long a Sentinel waits before it holds a server for dead. */
  readonly downAfterMs?: number;
  /** The server gets a clock that the fault can set. */
  readonly clocked?: boolean;
}

export interface FaultRun {
  readonly scenario: Scenario;
  readonly seed: number;
  readonly verdict: Verdict;
  readonly tookMs: number;
}

const WARM_WITHIN_MS = 8_000;
/** Long enough for places in queues and for renewals. */
const WARM_MS = 300;
/** A process whose last try failed, while the servers came up, knows so much later that they serve. */
const TRIED_AGAIN_MS = 250;
const HOLDS_WITHIN_MS = 8_000;
const RENEWED_MS = { from: 550, to: 900 } as const;
const SETTLES_MS = 600;
const KEYS_GO_WITHIN_MS = 6_000;
const SERVED_WITHIN_MS = 6_000;

export async function runFault(scenario: Scenario, seed: number, crew: Crew, resource: FencedResource): Promise<FaultRun> {
  const { processes = 3, leaseMs = 1_000, proxied = false, plans = usualPlans } = scenario;
  const since = monotonicNow();
  const wish = { processes, proxied, args: scenario.serverArgs ?? [], downAfterMs: scenario.downAfterMs, clocked: scenario.clocked };
  const topology = await startTopology(scenario.topology, wish);
  const members = await crew.take(processes);
  const lateTurns = watchLoop();
  try {
    const run = `${scenario.name.replace(/\W+/g, '-')}-${seed}-${Math.round(since)}`;
    const open = async (member: CrewMember, n: number) => {
      const options = { redis: topology.redisOf(n), client: TEST_CLIENT, ...scenario.options };
      const failure = await member.open(options, { name: `${run}/p${n}`, resourceUrl: resource.url });
      if (failure) throw new Error(`${scenario.name}: a process did not boot: ${failure.message}`);
    };
    await Promise.all(members.map(open));
    const planned = members.map((_, n) => plans(n, leaseMs));
    await Promise.all(members.map((member, n) => member.begin(planned[n] as CallerPlan[], seed * 10 + n)));
    const keys = [...new Set(planned.flat().flatMap(({ key }) => key))];
    await granted(members, keys, since, WARM_WITHIN_MS);
    const warmAt = monotonicNow() + TRIED_AGAIN_MS;
    await sleep(WARM_MS);
    const stage: Stage = { topology, crew: members, random: seededRandom(seed), leaseMs };
    const outage = await during(() => scenario.fault(stage));
    await granted(members, keys, outage.to, SERVED_WITHIN_MS);
    await sleep(SETTLES_MS);
    const stoppedAt = monotonicNow();
    const reports = await Promise.all(members.map((member) => member.finish()));
    await Promise.all(members.map((member) => member.closeApplication()));
    const lags = lateTurns.stop();
    const left = await emptied(topology);
    const complaints = members.map((member) => member.takeErrors()).filter((text) => text !== '');
    const record = { reports, lags, resource: await resource.state(run), warmAt, outage, stoppedAt, keysLeft: left, complaints };
    crew.giveBack(members);
    return { scenario, seed, verdict: judge(record, scenario), tookMs: monotonicNow() - since };
  } catch (error) {
    await Promise.all(members.map((member) => member.dismiss()));
    throw error;
  } finally {
    lateTurns.stop();
    await topology.stop();
  }
}

/** A process that holds a lock for long: it has renewed it once, so that its lease has its full length. */
export async function steadyHolder({ crew }: Stage, key = 'long'): Promise<number> {
  for (const until = monotonicNow() + HOLDS_WITHIN_MS; monotonicNow() < until; await sleep(15)) {
    const since = await Promise.all(crew.map((member) => member.heldSince(key)));
    const holder = since.findIndex((at) => at !== undefined && monotonicNow() - at > RENEWED_MS.from && monotonicNow() - at < RENEWED_MS.to);
    if (holder >= 0) return holder;
  }
  throw new Error(`nobody was granted '${key}' in ${HOLDS_WITHIN_MS} ms`);
}

async function during(fault: () => Promise<void>): Promise<Outage> {
  const from = monotonicNow();
  await fault();
  return { from, to: monotonicNow() };
}

/** Waits until every key was granted to somebody after `since`, or the time is over: the judge says what that means. */
async function granted(members: readonly CrewMember[], keys: readonly string[], since: number, withinMs: number): Promise<void> {
  const deadline = monotonicNow() + withinMs;
  while (monotonicNow() < deadline) {
    const last = await Promise.all(members.map((member) => member.lastGrants()));
    if (keys.every((key) => last.some((grants) => (grants[key] ?? 0) > since))) return;
    await sleep(40);
  }
}

/** What is left once garbage collection had its time. */
async function emptied(topology: Topology): Promise<string[]> {
  const deadline = monotonicNow() + KEYS_GO_WITHIN_MS;
  for (;;) {
    const left = await keysLeft(topology);
    if (left.length === 0 || monotonicNow() > deadline) return left;
    await sleep(50);
  }
}
