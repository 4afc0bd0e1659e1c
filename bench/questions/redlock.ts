/**
 * Five masters that know nothing of each other: what does a majority cost, and is anybody left out who waits for one key,
 * with all nodes there, with one that is frozen and with one that is dead?
 */
import { contenderNamed } from '../contenders/all.js';
import { digits, type Answer, type Figure, type Question } from '../harness/answer.js';
import { withCrew, type Member } from '../harness/crew.js';
import { sideBySide, type Rounds } from '../harness/measuring.js';
import { sent, startGroup, type ServerGroup } from '../harness/redis.js';
import { monotonicMs, type Turns } from '../harness/turns.js';

const NODES = 5;
const ROUNDS = 7;
const DURATION_MS = 300;
const PROCESSES = 4;
const CALLERS = 4;
const HOT_MS = 6_000;
const OURS = 'holdfastOnRedlock';
const UNAWAITED = 'holdfastOnRedlockUnawaited';
const PEERS = ['redlock4OnNodes', 'redlock5OnNodes', 'redisSemaphoreOnNodes', 'redlockUniversalOnNodes'];
const ENTRIES = [OURS, ...PEERS];

type Fault = 'all there' | 'one frozen' | 'one killed';

/** A hot key in one run; of a peer that does not run with such a fault, no turns. */
interface Run {
  readonly shares: readonly number[];
  readonly perSecond: number;
  readonly commands: number;
  readonly longestWaitMs: number;
  readonly overlaps: number;
}

export const redlock: Question = {
  name: 'redlock',
  answer: async () => [await uncontended(1), await uncontended(32), await hotKey('all there'), await hotKey('one frozen'), await hotKey('one killed')],
};

async function uncontended(callers: number): Promise<Answer> {
  const group = await startGroup(NODES);
  try {
    const rounds = await sideBySide(group, [...ENTRIES, UNAWAITED], ROUNDS, { callers, durationMs: DURATION_MS, keys: 'own', work: 'nothing' });
    return describeCycles(callers, rounds);
  } finally {
    await group.stop();
  }
}

function describeCycles(callers: number, rounds: Rounds): Answer {
  const ours = contenderNamed(OURS).name;
  const best = PEERS.map((entry) => contenderNamed(entry).name).reduce((one, other) =>
    rounds.median(other, 'cyclesPerSecond') > rounds.median(one, 'cyclesPerSecond') ? other : one,
  );
  return {
    title: `Redlock of ${NODES}, uncontended, ${callers === 1 ? 'one after another' : `${callers} callers on ${callers} keys`}`,
    method: `Acquire and release around nothing on ${NODES} masters. ${ROUNDS} rounds of ${DURATION_MS} ms each, each contender in a process of its own, one after another, in another order each round; medians, ratios round by round.`,
    columns: ['', 'cycles/s', `of ${best}`, 'commands a cycle', 'client CPU, µs', 'CPU of all nodes, µs'],
    rows: rounds.names.map((name) => [
      name,
      digits(rounds.median(name, 'cyclesPerSecond')),
      digits(rounds.rateRatio(name, best)),
      digits(rounds.median(name, 'commands')),
      digits(rounds.median(name, 'clientCpuUs')),
      digits(rounds.median(name, 'serverCpuUs')),
    ]),
    figures: [
      { what: `rate, of the best peer (${best})`, measured: rounds.rateRatio(ours, best), goal: { atLeast: callers === 1 ? 0.8 : 1.3 } },
      ...(callers === 1 ? [{ what: `rate, of the best peer (${best}), with awaitRelease: false`, measured: rounds.rateRatio(contenderNamed(UNAWAITED).name, best), goal: { atLeast: 1.2 } }] : []),
      { what: 'commands a cycle', measured: rounds.median(ours, 'commands'), goal: { atMost: 10 } },
    ],
  };
}

async function hotKey(fault: Fault): Promise<Answer> {
  const runs = new Map<string, Run>();
  for (const entry of ENTRIES) {
    const group = await startGroup(NODES);
    try {
      const four = new Array<string>(PROCESSES).fill(entry);
      runs.set(entry, await withCrew(four, group.ports, (crew) => compete(group, crew, fault)));
    } finally {
      await group.stop();
    }
  }
  return describeTurns(fault, runs);
}

async function compete(group: ServerGroup, crew: readonly Member[], fault: Fault): Promise<Run> {
  if (fault === 'one frozen') await group.freeze(0);
  if (fault === 'one killed') await group.kill(0);
  const run = { callers: CALLERS, key: 'hot', startAt: monotonicMs() + 100, durationMs: HOT_MS };
  const { result, cost } = await group.costOf(() => Promise.all(crew.map((member) => member.order<Turns>({ kind: 'turns', run }))));
  const turns = result.flatMap((flat) => Array.from({ length: flat.length / 3 }, (_, at) => ({ wanted: flat[3 * at]!, began: flat[3 * at + 1]!, ended: flat[3 * at + 2]! })));
  turns.sort((one, other) => one.began - other.began);
  const seconds = turns.length === 0 ? NaN : (turns.at(-1)!.ended - turns[0]!.began) / 1000;
  return {
    shares: result.map((flat) => flat.length / 3),
    perSecond: turns.length / seconds,
    commands: sent(cost, crew[0]!.contender.sends) / turns.length,
    longestWaitMs: turns.reduce((longest, { wanted, began }) => Math.max(longest, began - wanted), 0),
    overlaps: turns.slice(1).filter(({ began }, before) => began < turns[before]!.ended).length,
  };
}

function describeTurns(fault: Fault, runs: ReadonlyMap<string, Run>): Answer {
  const of = (entry: string): Run => runs.get(entry)!;
  const unfairness = ({ shares }: Run): number => Math.max(...shares) / Math.min(...shares);
  const cheapest = Math.min(...PEERS.map((entry) => of(entry).commands).filter(Number.isFinite));
  const pace: Figure[] = [
    { what: 'turns a second, of redis-semaphore’s', measured: of(OURS).perSecond / of('redisSemaphoreOnNodes').perSecond, goal: { atLeast: 1 } },
    { what: 'commands a turn, of the peer’s that sends fewest', measured: of(OURS).commands / cheapest, goal: { atMost: 1 } },
  ];
  return {
    title: `Redlock of ${NODES}, a hot key, ${PROCESSES} processes of ${CALLERS} callers, nodes: ${fault}`,
    method:
      `Every caller wants the same key again and again for ${HOT_MS / 1000} s and holds it for one setImmediate. Turns of each process, and the longest that any turn was waited for. ` +
      'Commands are those that the living nodes were sent. Overlaps: turns that began before the one before had ended.',
    columns: ['', 'turns of each process', 'turns/s', 'commands a turn', 'longest wait, ms', 'overlaps'],
    rows: ENTRIES.map((entry) => {
      const { shares, perSecond, commands, longestWaitMs, overlaps } = of(entry);
      return [contenderNamed(entry).name, shares.join(', '), digits(perSecond), digits(commands), digits(longestWaitMs), digits(overlaps)];
    }),
    figures: [
      { what: 'turns of the busiest process over those of the least busy', measured: unfairness(of(OURS)), goal: { atMost: 1.5 } },
      { what: 'longest wait, ms', measured: of(OURS).longestWaitMs, goal: { atMost: fault === 'one killed' ? 2_000 : 1_000 } },
      { what: 'overlaps', measured: of(OURS).overlaps, goal: { atMost: 0 } },
      ...(fault === 'all there' ? pace : []),
    ],
  };
}
