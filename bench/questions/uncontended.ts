/**
 * What does a lock cost that nobody else wants? One caller after another, and 64 callers on 64 keys.
 */
import { peerNames } from '../contenders/all.js';
import { bare } from '../contenders/bare.js';
import { floor } from '../contenders/floor.js';
import { digits, type Answer, type Question } from '../harness/answer.js';
import { sideBySide } from '../harness/measuring.js';
import { startServer } from '../harness/redis.js';

const ROUNDS = 11;
const DURATION_MS = 250;

export const uncontended: Question = {
  name: 'uncontended',
  answer: async () => [await ask(1), await ask(64)],
};

async function ask(callers: number): Promise<Answer> {
  const server = await startServer();
  try {
    const entries = ['floor', 'bare', 'holdfast', ...peerNames];
    const rounds = await sideBySide(server, entries, ROUNDS, { callers, durationMs: DURATION_MS, keys: 'own', work: 'nothing' });
    const ours = 'Holdfast';
    return {
      title: callers === 1 ? 'Uncontended, one after another' : `Uncontended, ${callers} callers on ${callers} keys`,
      method: `Acquire and release around nothing. ${ROUNDS} rounds of ${DURATION_MS} ms each, each contender in a process of its own, one after another, in another order each round; medians, ratios round by round.`,
      columns: ['', 'cycles/s', 'of the floor', 'middle half', 'of bare', 'commands a cycle', 'client CPU, µs', 'Redis CPU, µs'],
      rows: rounds.names.map((name) => [
        name,
        digits(rounds.median(name, 'cyclesPerSecond')),
        digits(rounds.rateRatio(name, floor.name)),
        rounds.rateQuartiles(name, floor.name).map(digits).join(' to '),
        digits(rounds.rateRatio(name, bare.name)),
        digits(rounds.median(name, 'commands')),
        digits(rounds.median(name, 'clientCpuUs')),
        digits(rounds.median(name, 'serverCpuUs')),
      ]),
      figures: [
        { what: 'rate, of the floor', measured: rounds.rateRatio(ours, floor.name), goal: { atLeast: callers === 1 ? 0.9 : 1.2 } },
        { what: 'rate, of our bare scripts', measured: rounds.rateRatio(ours, bare.name), goal: { atLeast: 0.95 } },
        { what: 'commands a cycle', measured: rounds.median(ours, 'commands'), goal: { atMost: 2.01 } },
      ],
    };
  } finally {
    await server.stop();
  }
}
