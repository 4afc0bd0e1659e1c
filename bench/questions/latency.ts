/**
 * What does a lock add to a call over a network? One caller, and a relay that delays each packet: a loopback flatters whoever makes
 * many round trips.
 */
import { contenderNamed, peerNames } from '../contenders/all.js';
import { floor } from '../contenders/floor.js';
import { digits, type Answer, type Question } from '../harness/answer.js';
import { sideBySide } from '../harness/measuring.js';
import { startServer } from '../harness/redis.js';
import { startRelay } from '../harness/relay.js';

const ROUNDS = 7;
const DURATION_MS = 500;
const WARM_UP_CYCLES = 1_000;
/** Half of a round trip, and what is to be reached without waiting for the release. */
const LINKS = [
  { delayMs: 0.125, unawaited: { rate: 1.6, median: 0.6 } },
  { delayMs: 0.5, unawaited: { rate: 1.8, median: 0.54 } },
] as const;
const UNAWAITED = 'holdfastUnawaited';

export const latency: Question = {
  name: 'latency',
  answer: async () => {
    const answers: Answer[] = [];
    for (const link of LINKS) answers.push(await ask(link));
    return answers;
  },
};

async function ask({ delayMs, unawaited }: (typeof LINKS)[number]): Promise<Answer> {
  const server = await startServer();
  const relay = await startRelay({ port: server.port, delayMs });
  try {
    const rounds = await sideBySide({ ...server, ports: [relay.port] }, ['floor', 'holdfast', UNAWAITED, ...peerNames], ROUNDS, {
      callers: 1,
      durationMs: DURATION_MS,
      keys: 'own',
      work: 'nothing',
    }, WARM_UP_CYCLES);
    const ours = 'Holdfast';
    const sooner = contenderNamed(UNAWAITED).name;
    return {
      title: `One uncontended call over a round trip of ${2 * delayMs} ms`,
      method:
        `Acquire and release around nothing, one caller, over a relay that delays each packet by ${delayMs} ms each way and keeps the order of all. ` +
        `${ROUNDS} rounds of ${DURATION_MS} ms each, one contender after another, in another order each round; medians, ratios round by round.`,
      columns: ['', 'median, ms', 'of the floor', 'p99, ms', 'of the floor', 'cycles/s', 'of the floor'],
      rows: rounds.names.map((name) => [
        name,
        digits(rounds.median(name, 'medianMs')),
        digits(rounds.ratio(name, floor.name, 'medianMs')),
        digits(rounds.median(name, 'p99Ms')),
        digits(rounds.ratio(name, floor.name, 'p99Ms')),
        digits(rounds.median(name, 'cyclesPerSecond')),
        digits(rounds.rateRatio(name, floor.name)),
      ]),
      figures: [
        { what: 'median, of the floor', measured: rounds.ratio(ours, floor.name, 'medianMs'), goal: { atMost: 1.05 } },
        { what: 'p99, of the floor', measured: rounds.ratio(ours, floor.name, 'p99Ms'), goal: { atMost: 1.1 } },
        { what: 'rate, of the floor, with awaitRelease: false', measured: rounds.rateRatio(sooner, floor.name), goal: { atLeast: unawaited.rate } },
        { what: 'median, of the floor, with awaitRelease: false', measured: rounds.ratio(sooner, floor.name, 'medianMs'), goal: { atMost: unawaited.median } },
      ],
    };
  } finally {
    await relay.stop();
    await server.stop();
  }
}
