/**
 * What does it cost to hold many leases? 10,000 of 3 s for 20 s beside the peers that renew, the same on a Cluster, and
 * 100,000 of 30 s.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { digits, type Answer, type Question } from '../harness/answer.js';
import { withCrew } from '../harness/crew.js';
import type { HoldingResult } from '../harness/holding.js';
import { sent, startMasters, startServer, type BenchServer, type ServerCost } from '../harness/redis.js';

const RENEWING = ['holdfast', 'redisSemaphore', 'redlock5', 'redlockUniversal', 'redisKit'];

interface Held extends HoldingResult {
  readonly name: string;
  readonly commandsPerSecond: number;
  /** Of one core, all servers together. */
  readonly redisShare: number;
}

interface Work {
  readonly leases: number;
  readonly leaseMs: number;
  readonly holdMs: number;
  readonly watchDelay?: boolean;
}

/** The first renewals come as the locks were taken, not yet as they will from then on. */
const SETTLE_MS = 4_000;
const TEN_THOUSAND: Work = { leases: 10_000, leaseMs: 3_000, holdMs: 20_000 };

export const manyLeases: Question = {
  name: 'many-leases',
  answer: async () => [await tenThousand(), await onCluster(), await hundredThousand()],
};

/** Each on fresh servers. */
async function held(entry: string, work: Work, start: () => Promise<readonly BenchServer[]> = async () => [await startServer()]): Promise<Held> {
  const servers = await start();
  try {
    return await withCrew([entry], servers[0]!.ports, async ([member]) => {
      await member!.order({ kind: 'hold', holding: { ...work, holdMs: 0 } });
      await sleep(SETTLE_MS);
      const { result, costs } = await costsOf(servers, () => member!.order<HoldingResult>({ kind: 'hold', holding: { ...work, leases: 0 } }));
      const { name, sends } = member!.contender;
      const total = (of: (cost: ServerCost) => number): number => costs.reduce((sum, cost) => sum + of(cost), 0);
      // What a lock sends beside its renewals belongs to taking and giving back, so `sendsBesides` does not count here.
      return { ...result, name, commandsPerSecond: total((cost) => sent(cost, sends)) / result.seconds, redisShare: total(({ cpuMs }) => cpuMs) / 1000 / result.seconds };
    });
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

/** Watches all servers while one piece of work is done. */
async function costsOf<T>([server, ...others]: readonly BenchServer[], work: () => Promise<T>): Promise<{ result: T; costs: readonly ServerCost[] }> {
  if (server === undefined) return { result: await work(), costs: [] };
  const { result, cost } = await server.costOf(() => costsOf(others, work));
  return { result: result.result, costs: [cost, ...result.costs] };
}

const COLUMNS = ['', 'commands/s', 'client CPU, s', 'Redis, of a core', 'lost'];

function row({ name, commandsPerSecond, cpuMs, redisShare, lost }: Held): string[] {
  return [name, digits(commandsPerSecond), digits(cpuMs / 1000), `${digits(100 * redisShare)} %`, digits(lost)];
}

async function tenThousand(): Promise<Answer> {
  const all: Held[] = [];
  for (const entry of RENEWING) all.push(await held(entry, TEN_THOUSAND));
  const [ours] = all as [Held, ...Held[]];
  return {
    title: '10,000 leases of 3 s, held for 20 s',
    method: `One process takes 10,000 locks and keeps them by its own renewals; after ${SETTLE_MS / 1000} s more, commands, CPU and losses of 20 s are taken. Each contender has a fresh server. Peers without renewals are left out.`,
    columns: COLUMNS,
    rows: all.map(row),
    figures: [
      { what: 'commands a second', measured: ours.commandsPerSecond, goal: { atMost: 60 } },
      { what: 'client CPU in 20 s, in s', measured: ours.cpuMs / 1000, goal: { atMost: 1 } },
      { what: 'leases lost', measured: ours.lost, goal: { atMost: 0 } },
    ],
  };
}

async function onCluster(): Promise<Answer> {
  const ours = await held('holdfastOnCluster', TEN_THOUSAND, startMasters);
  return {
    title: '10,000 leases of 3 s on a Cluster, held for 20 s',
    method: 'As before, with Holdfast alone, on three masters: their commands and their CPU together.',
    columns: COLUMNS,
    rows: [row(ours)],
    figures: [
      { what: 'commands a second', measured: ours.commandsPerSecond, goal: { atMost: 300 } },
      { what: 'leases lost', measured: ours.lost, goal: { atMost: 0 } },
    ],
  };
}

async function hundredThousand(): Promise<Answer> {
  const ours = await held('holdfast', { leases: 100_000, leaseMs: 30_000, holdMs: 35_000, watchDelay: true });
  return {
    title: '100,000 leases of 30 s, held for 35 s',
    method: 'As before, with Holdfast alone on one server. The event-loop delay is sampled every millisecond, which is a large part of the client’s CPU here.',
    columns: [...COLUMNS, 'event-loop delay p99, ms', 'worst, ms'],
    rows: [[...row(ours), digits(ours.delayP99Ms), digits(ours.delayMaxMs)]],
    figures: [
      { what: 'leases lost', measured: ours.lost, goal: { atMost: 0 } },
      { what: 'event-loop delay p99, in ms', measured: ours.delayP99Ms, goal: { atMost: 20 } },
      { what: 'of a core in Redis', measured: ours.redisShare, goal: { atMost: 0.08 } },
    ],
  };
}
