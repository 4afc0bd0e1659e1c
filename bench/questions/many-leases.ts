/**
 * What does it cost to hold many leases? 10,000 of 3 s for 20 s beside the peers that renew, and 100,000 of 30 s.
 */
import { digits, type Answer, type Question } from '../harness/answer.js';
import { withCrew } from '../harness/crew.js';
import type { HoldingResult } from '../harness/holding.js';
import { startServer } from '../harness/redis.js';

const RENEWING = ['holdfast', 'redisSemaphore', 'redlock5', 'redlockUniversal', 'redisKit'];

interface Held extends HoldingResult {
  readonly name: string;
  readonly commandsPerSecond: number;
  readonly redisShare: number;
}

export const manyLeases: Question = {
  name: 'many-leases',
  answer: async () => [await tenThousand(), await hundredThousand()],
};

async function held(entry: string, leases: number, leaseMs: number, holdMs: number): Promise<Held> {
  const server = await startServer();
  try {
    return await withCrew([entry], server.port, async ([member]) => {
      await member!.order({ kind: 'hold', holding: { leases, leaseMs, holdMs: 0 } });
      const { result, cost } = await server.costOf(() => member!.order<HoldingResult>({ kind: 'hold', holding: { leases: 0, leaseMs, holdMs } }));
      const { contender } = member!;
      // What a lock sends beside its renewals belongs to taking and giving back, so `sendsBesides` does not count here.
      const commands = contender.sends.reduce((sum, name) => sum + (cost.calls.get(name) ?? 0), 0);
      return { ...result, name: contender.name, commandsPerSecond: commands / result.seconds, redisShare: cost.cpuMs / 1000 / result.seconds };
    });
  } finally {
    await server.stop();
  }
}

const COLUMNS = ['', 'commands/s', 'client CPU, s', 'Redis, of a core', 'event-loop delay p99, ms', 'worst, ms', 'lost'];

function row({ name, commandsPerSecond, cpuMs, redisShare, delayP99Ms, delayMaxMs, lost }: Held): string[] {
  return [name, digits(commandsPerSecond), digits(cpuMs / 1000), `${digits(100 * redisShare)} %`, digits(delayP99Ms), digits(delayMaxMs), digits(lost)];
}

async function tenThousand(): Promise<Answer> {
  const all: Held[] = [];
  for (const entry of RENEWING) all.push(await held(entry, 10_000, 3_000, 20_000));
  const [ours] = all as [Held, ...Held[]];
  return {
    title: '10,000 leases of 3 s, held for 20 s',
    method: 'One process takes 10,000 locks and keeps them by its own renewals; commands, CPU and losses of the 20 s after that. Each contender has a fresh server. Peers without renewals are left out.',
    columns: COLUMNS,
    rows: all.map(row),
    figures: [
      { what: 'commands a second', measured: ours.commandsPerSecond, goal: { atMost: 60 } },
      { what: 'client CPU in 20 s, in s', measured: ours.cpuMs / 1000, goal: { atMost: 0.45 } },
      { what: 'leases lost', measured: ours.lost, goal: { atMost: 0 } },
    ],
    bars: { unit: 'commands a second', logarithmic: true, values: all.map(({ name, commandsPerSecond }, at) => ({ name, value: commandsPerSecond, ours: at === 0 })) },
  };
}

async function hundredThousand(): Promise<Answer> {
  const ours = await held('holdfast', 100_000, 30_000, 35_000);
  return {
    title: '100,000 leases of 30 s, held for 35 s',
    method: 'As before, with Holdfast alone. The event-loop delay is sampled every millisecond.',
    columns: COLUMNS,
    rows: [row(ours)],
    figures: [
      { what: 'leases lost', measured: ours.lost, goal: { atMost: 0 } },
      { what: 'event-loop delay p99, in ms', measured: ours.delayP99Ms, goal: { atMost: 20 } },
      { what: 'of a core in Redis', measured: ours.redisShare, goal: { atMost: 0.05 } },
    ],
  };
}
