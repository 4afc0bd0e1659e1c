/**
 * What does a lock add to a call over a network? One caller, and a relay that delays each packet: a loopback flatters whoever makes
 * many round trips.
 */
import { peerNames } from '../contenders/all.js';
import { floor } from '../contenders/floor.js';
import { digits, type Answer, type Question } from '../harness/answer.js';
import { sideBySide } from '../harness/measuring.js';
import { startServer } from '../harness/redis.js';
import { startRelay } from '../harness/relay.js';

const ROUNDS = 7;
const DURATION_MS = 500;
const WARM_UP_CYCLES = 1_000;
/** Half of a round trip. */
const DELAYS_MS = [0.125, 0.5] as const;

export const latency: Question = {
  name: 'latency',
  answer: async () => {
    const answers: Answer[] = [];
    for (const delayMs of DELAYS_MS) answers.push(await ask(delayMs));
    return answers;
  },
};

async function ask(delayMs: number): Promise<Answer> {
  const server = await startServer();
  const relay = await startRelay({ port: server.port, delayMs });
  try {
    const rounds = await sideBySide({ ...server, ports: [relay.port] }, ['floor', 'holdfast', ...peerNames], ROUNDS, {
      callers: 1,
      durationMs: DURATION_MS,
      keys: 'own',
      work: 'nothing',
    }, WARM_UP_CYCLES);
    const ours = 'Holdfast';
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
      ],
    };
  } finally {
    await relay.stop();
    await server.stop();
  }
}
