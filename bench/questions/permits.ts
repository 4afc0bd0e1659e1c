/**
 * Four permits, four processes: how many holds a second, what a hold costs, who waits longest, and whether more than four were ever
 * inside; with 16 callers in each process, and with 1,000 in all.
 */
import { contenderNamed } from '../contenders/all.js';
import { digits, type Answer, type Question } from '../harness/answer.js';
import { withCrew, type Member } from '../harness/crew.js';
import { quantile } from '../harness/loop.js';
import { sent, startServer, type BenchServer } from '../harness/redis.js';
import { monotonicMs, type Turns } from '../harness/turns.js';

const PERMITS = 4;
const PROCESSES = 4;
const ROUNDS = 5;
const ROUND_MS = 2_000;
const OURS = `holdfastPermits@${PERMITS}`;
const PEER = `redisSemaphorePermits@${PERMITS}`;

interface Run {
  readonly perSecond: number;
  readonly commands: number;
  /** Holds of the busiest process over those of the least busy one. */
  readonly unfairness: number;
  readonly longestWaitMs: number;
  readonly mostInside: number;
}

interface Hold {
  readonly wanted: number;
  readonly began: number;
  readonly ended: number;
}

export const permits: Question = { name: 'permits', answer: async () => [await ask(16), await ask(250)] };

async function ask(callers: number): Promise<Answer> {
  const server = await startServer();
  try {
    const runs = new Map<string, Run[]>();
    const crewOf = (entry: string): string[] => new Array<string>(PROCESSES).fill(entry);
    await withCrew([OURS, PEER].flatMap(crewOf), server.ports, async (everybody) => {
      for (let round = -1; round < ROUNDS; round++) {
        for (const [at, entry] of [OURS, PEER].entries()) {
          const run = await compete(server, everybody.slice(at * PROCESSES, (at + 1) * PROCESSES), `${entry}:${round}`, callers);
          if (round >= 0) runs.set(entry, [...(runs.get(entry) ?? []), run]);
        }
      }
    });
    return describe(callers, (entry, figure) => quantile(runs.get(entry)!.map((run) => run[figure]), 0.5));
  } finally {
    await server.stop();
  }
}

async function compete(server: BenchServer, crew: readonly Member[], key: string, callers: number): Promise<Run> {
  const run = { callers, key, startAt: monotonicMs() + 100, durationMs: ROUND_MS };
  const { result, cost } = await server.costOf(() => Promise.all(crew.map((member) => member.order<Turns>({ kind: 'turns', run }))));
  const shares = result.map(holdsOf);
  const holds = shares.flat().sort((one, other) => one.began - other.began);
  const { sends, sendsBesides } = crew[0]!.contender;
  const counts = shares.map(({ length }) => length);
  return {
    perSecond: holds.length / ((holds.at(-1)!.ended - holds[0]!.began) / 1000),
    commands: sent(cost, sends) / holds.length + sendsBesides,
    unfairness: Math.max(...counts) / Math.min(...counts),
    longestWaitMs: holds.reduce((longest, { wanted, began }) => Math.max(longest, began - wanted), 0),
    mostInside: mostInside(holds),
  };
}

function holdsOf(flat: Turns): Hold[] {
  return Array.from({ length: flat.length / 3 }, (_, at) => ({ wanted: flat[3 * at]!, began: flat[3 * at + 1]!, ended: flat[3 * at + 2]! }));
}

/** How many were inside at the same time. */
function mostInside(holds: readonly Hold[]): number {
  const steps = holds.flatMap(({ began, ended }) => [{ at: began, by: 1 }, { at: ended, by: -1 }]).sort((one, other) => one.at - other.at || one.by - other.by);
  let [inside, most] = [0, 0];
  for (const { by } of steps) most = Math.max(most, (inside += by));
  return most;
}

function describe(callers: number, of: (entry: string, figure: keyof Run) => number): Answer {
  return {
    title: `${PERMITS} permits, ${PROCESSES} processes of ${callers} callers`,
    method:
      `Every caller wants one of ${PERMITS} permits again and again and holds it for one setImmediate. Both in turns, ${ROUNDS} rounds of ${ROUND_MS} ms, medians; ` +
      'redis-semaphore with its documented pause between two tries. Unfairness: holds of the busiest process over those of the least busy one.',
    columns: ['', 'holds/s', 'commands a hold', 'unfairness', 'longest wait, ms', 'most inside'],
    rows: [OURS, PEER].map((entry) => [
      contenderNamed(entry).name,
      ...(['perSecond', 'commands', 'unfairness', 'longestWaitMs', 'mostInside'] as const).map((figure) => digits(of(entry, figure))),
    ]),
    figures: [
      { what: `holds a second with permits, ${callers} callers a process, of ${contenderNamed(PEER).name}`, measured: of(OURS, 'perSecond') / of(PEER, 'perSecond'), goal: { atLeast: 1.5 } },
      { what: `commands a hold with permits, ${callers} callers a process`, measured: of(OURS, 'commands'), goal: { atMost: 2 } },
      { what: `unfairness between processes with permits, ${callers} callers a process`, measured: of(OURS, 'unfairness'), goal: { atMost: 1.2 } },
    ],
  };
}
