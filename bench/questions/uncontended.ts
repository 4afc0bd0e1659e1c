/**
 * What does a lock cost that nobody else wants? One caller after another, and 64 callers on 64 keys; on one Redis, and on a Cluster.
 */
import { contenderNamed, peerNames } from '../contenders/all.js';
import { bare } from '../contenders/bare.js';
import { floor } from '../contenders/floor.js';
import { digits, type Answer, type Question } from '../harness/answer.js';
import { sideBySide, whenYoung, type Rounds } from '../harness/measuring.js';
import { startMasters, startServer, together } from '../harness/redis.js';

const ROUNDS = 11;
const DURATION_MS = 250;

export const uncontended: Question = {
  name: 'uncontended',
  answer: async () => [await ask(1), await ask(64), await askTheYoung(1), await askTheYoung(64), await askOnCluster(1), await askOnCluster(64)],
};

/** After so many cycles of a process it is measured: most processes never get as far as those that are warmed up. */
const AGES = [500, 3_000] as const;
const STARTS = 7;

async function askTheYoung(callers: number): Promise<Answer> {
  const server = await startServer();
  try {
    const entries = ['floor', 'bare', 'holdfast', ...peerNames];
    const byAge = await whenYoung(server, entries, STARTS, { callers, durationMs: 10_000, keys: 'own', work: 'nothing' }, AGES);
    const tails = callers === 1 ? ['p99Ms' as const] : [];
    return {
      title: titleOf(callers, ', young processes'),
      method: `As above, but each contender's process is started anew ${STARTS} times, and measured for 500 cycles after 500 and for 1,000 after 3,000; medians of rates and tails in terms of the floor's of the same age.`,
      columns: ['', ...AGES.flatMap((age) => [`cycles/s after ${digits(age)}`, 'of the floor', ...tails.map(() => 'p99, of the floor')])],
      rows: byAge.get(AGES[0])!.names.map((name) => [
        name,
        ...AGES.map((age) => byAge.get(age)!).flatMap((rounds) => [
          digits(rounds.median(name, 'cyclesPerSecond')),
          digits(rounds.rateRatio(name, floor.name)),
          ...tails.map((figure) => digits(rounds.ratio(name, floor.name, figure))),
        ]),
      ]),
      figures: AGES.map((age) => ({ what: `rate after ${digits(age)} cycles, of the floor`, measured: byAge.get(age)!.rateRatio('Holdfast', floor.name), goal: { atLeast: callers === 1 ? 0.85 : 1.1 } })),
    };
  } finally {
    await server.stop();
  }
}

const UNAWAITED = 'holdfastUnawaited';
const titleOf = (callers: number, where = ''): string => `Uncontended${where}, ${callers === 1 ? 'one after another' : `${callers} callers on ${callers} keys`}`;
const METHOD = `Acquire and release around nothing. ${ROUNDS} rounds of ${DURATION_MS} ms each, each contender in a process of its own, one after another, in another order each round; medians, ratios round by round.`;

async function ask(callers: number): Promise<Answer> {
  const server = await startServer();
  try {
    const entries = ['floor', 'bare', 'holdfast', UNAWAITED, ...peerNames];
    const rounds = await sideBySide(server, entries, ROUNDS, { callers, durationMs: DURATION_MS, keys: 'own', work: 'nothing' });
    const ours = 'Holdfast';
    const unawaited = contenderNamed(UNAWAITED).name;
    return {
      title: titleOf(callers),
      method: METHOD,
      ...costs(rounds, floor.name, callers),
      figures: [
        { what: 'rate, of the floor', measured: rounds.rateRatio(ours, floor.name), goal: { atLeast: callers === 1 ? 0.85 : 1.1 } },
        { what: 'rate, of our bare scripts', measured: rounds.rateRatio(ours, bare.name), goal: { atLeast: 0.95 } },
        ...(callers === 1 ? [
          { what: 'p99, of the floor', measured: rounds.ratio(ours, floor.name, 'p99Ms'), goal: { atMost: 1.5 } },
          { what: 'rate, of the floor, with awaitRelease: false', measured: rounds.rateRatio(unawaited, floor.name), goal: { atLeast: 1 } },
        ] : []),
        { what: 'commands a cycle', measured: rounds.median(ours, 'commands'), goal: { atMost: 2.01 } },
      ],
    };
  } finally {
    await server.stop();
  }
}

async function askOnCluster(callers: number): Promise<Answer> {
  const masters = await startMasters();
  try {
    const entries = ['floorOnCluster', 'holdfastOnCluster'];
    const [base, ours] = entries.map((entry) => contenderNamed(entry).name) as [string, string];
    const rounds = await sideBySide(together(new Set(masters)), entries, ROUNDS, { callers, durationMs: DURATION_MS, keys: 'own', work: 'nothing' });
    return {
      title: titleOf(callers, ' on a Cluster of three'),
      method: METHOD,
      ...costs(rounds, base, callers),
      figures: [{ what: 'rate, of the floor', measured: rounds.rateRatio(ours, base), goal: { atLeast: callers === 1 ? 0.85 : 0.8 } }],
    };
  } finally {
    await Promise.all(masters.map((master) => master.stop()));
  }
}

function costs(rounds: Rounds, base: string, callers: number): Pick<Answer, 'columns' | 'rows'> {
  const tails = callers === 1 ? ['p99Ms' as const] : [];
  return {
    columns: ['', 'cycles/s', 'of the floor', 'middle half', ...tails.map(() => 'p99, of the floor'), 'commands a cycle', 'client CPU, µs', 'Redis CPU, µs'],
    rows: rounds.names.map((name) => [
      name,
      digits(rounds.median(name, 'cyclesPerSecond')),
      digits(rounds.rateRatio(name, base)),
      rounds.rateQuartiles(name, base).map(digits).join(' to '),
      ...tails.map((figure) => digits(rounds.ratio(name, base, figure))),
      digits(rounds.median(name, 'commands')),
      digits(rounds.median(name, 'clientCpuUs')),
      digits(rounds.median(name, 'serverCpuUs')),
    ]),
  };
}
