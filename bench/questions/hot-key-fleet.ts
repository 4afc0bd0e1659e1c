/**
 * One hot key, four processes of eight callers: commands a turn, fairness between the processes, and how long the lock
 * lies idle between a release and the next start, beside push locks that do nothing else.
 */
import { publishLock } from '../contenders/push-lock.js';
import { contenderNamed } from '../contenders/all.js';
import { digits, type Answer, type Question } from '../harness/answer.js';
import { withCrew, type Member } from '../harness/crew.js';
import { quantile } from '../harness/loop.js';
import { sent, startServer, type BenchServer } from '../harness/redis.js';
import { monotonicMs, type Turns } from '../harness/turns.js';

const PROCESSES = 4;
const CALLERS = 8;
const TURNS = 4_000;
const ROUNDS = 5;
const ROUND_MS = 1_500;
/** Each process makes a quarter of the turns, and its compiler has to see them all. */
const WARM_UPS = 2;
const PUSHING = ['publishLock', 'blockingPopLock', 'holdfast', 'holdfast@1'];
const POLLING = ['nodeRedisson', 'redlock4', 'redlock5', 'redisSemaphore', 'redlockUniversal', 'redisKit'];

interface Run {
  readonly turns: number;
  readonly perSecond: number;
  readonly commands: number;
  /** Turns of the busiest process over those of the least busy one, in the first 4,000. */
  readonly unfairness: number;
  readonly idleMs: number;
  readonly idleP99Ms: number;
  readonly longestWaitMs: number;
  readonly overlaps: number;
}

export const hotKeyFleet: Question = { name: 'hot-key-fleet', answer: async () => [await ask()] };

async function ask(): Promise<Answer> {
  const server = await startServer();
  try {
    const runs = new Map<string, Run[]>();
    const entries = [...PUSHING, ...POLLING];
    await withCrew(PUSHING.flatMap(fourOf), server.ports, async (everybody) => {
      for (let round = -WARM_UPS; round < ROUNDS; round++) {
        for (const [at, entry] of PUSHING.entries()) {
          const run = await compete(server, everybody.slice(at * PROCESSES, (at + 1) * PROCESSES), ROUND_MS);
          if (round >= 0) runs.set(entry, [...(runs.get(entry) ?? []), run]);
        }
      }
    });
    for (const entry of POLLING) runs.set(entry, [await withCrew(fourOf(entry), server.ports, (crew) => compete(server, crew, 3_000))]);
    return describe(entries, (entry, figure) => quantile(runs.get(entry)!.map((run) => run[figure]), 0.5));
  } finally {
    await server.stop();
  }
}

const fourOf = (entry: string): string[] => new Array<string>(PROCESSES).fill(entry);

async function compete(server: BenchServer, crew: readonly Member[], durationMs: number): Promise<Run> {
  const run = { callers: CALLERS, key: 'hot', startAt: monotonicMs() + 100, durationMs };
  const { result, cost } = await server.costOf(() => Promise.all(crew.map((member) => member.order<Turns>({ kind: 'turns', run }))));
  const turns = result.flatMap((flat, process) => triples(flat).map(([wanted, began, ended]) => ({ wanted, began, ended, process })));
  turns.sort((a, b) => a.began - b.began);
  const shares = crew.map((_, process) => turns.slice(0, TURNS).filter((turn) => turn.process === process).length);
  const gaps = turns.slice(1).map((turn, before) => ({ idle: turn.began - turns[before]!.ended, across: turn.process !== turns[before]!.process }));
  const across = gaps.filter((gap) => gap.across).map(({ idle }) => idle);
  const { sends, sendsBesides } = crew[0]!.contender;
  return {
    turns: turns.length,
    perSecond: turns.length / ((turns.at(-1)!.ended - turns[0]!.began) / 1000),
    commands: sent(cost, sends) / turns.length + sendsBesides,
    unfairness: Math.max(...shares) / Math.min(...shares),
    idleMs: quantile(across, 0.5),
    idleP99Ms: quantile(across, 0.99),
    longestWaitMs: turns.reduce((longest, { wanted, began }) => Math.max(longest, began - wanted), 0),
    overlaps: gaps.filter(({ idle }) => idle < 0).length,
  };
}

function triples(flat: readonly number[]): [number, number, number][] {
  return Array.from({ length: flat.length / 3 }, (_, at) => [flat[3 * at]!, flat[3 * at + 1]!, flat[3 * at + 2]!]);
}

function describe(entries: readonly string[], of: (entry: string, figure: keyof Run) => number): Answer {
  return {
    title: `A hot key, ${PROCESSES} processes of ${CALLERS} callers`,
    method:
      `Every caller wants the same key again and again and holds it for one setImmediate. The push locks and Holdfast in turns, ${ROUNDS} rounds of ${ROUND_MS} ms, medians; the others one ` +
      `round of 3 s with their documented pause. Unfairness: turns of the busiest process over those of the least busy one among the first ${TURNS.toLocaleString('en-US')}. Idle: from the end of a turn to the start ` +
      'of the next in another process. A caller that polls may take the lock again and again while others sleep, which is cheap and unfair: see the longest wait. Overlaps: turns that began before the one before had ended.',
    columns: ['', 'turns/s', 'commands a turn', 'unfairness', 'idle, ms', 'idle p99, ms', 'longest wait, ms', 'overlaps'],
    rows: entries.map((entry) => [
      contenderNamed(entry).name,
      ...(['perSecond', 'commands', 'unfairness', 'idleMs', 'idleP99Ms', 'longestWaitMs', 'overlaps'] as const).map((figure) => digits(of(entry, figure))),
    ]),
    figures: [
      { what: 'commands a turn, default handOn', measured: of('holdfast', 'commands'), goal: { atMost: 0.25 } },
      { what: 'commands a turn, handOn 1', measured: of('holdfast@1', 'commands'), goal: { atMost: 1.1 } },
      { what: 'unfairness between processes, default handOn', measured: of('holdfast', 'unfairness'), goal: { atMost: 1.2 } },
      { what: 'unfairness between processes, handOn 1', measured: of('holdfast@1', 'unfairness'), goal: { atMost: 1.2 } },
      { what: `idle between processes, handOn 1, of the ${publishLock.name}`, measured: of('holdfast@1', 'idleMs') / of('publishLock', 'idleMs'), goal: { atMost: 1.5 } },
      { what: `turns a second, handOn 1, of the ${publishLock.name}`, measured: of('holdfast@1', 'perSecond') / of('publishLock', 'perSecond'), goal: { atLeast: 0.7 } },
    ],
  };
}
