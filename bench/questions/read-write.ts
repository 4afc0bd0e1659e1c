/**
 * Readers and writers of one key, 90 % reads, beside the read-write lock that people write by hand.
 */
import { contenderNamed } from '../contenders/all.js';
import { digits, type Answer, type Question } from '../harness/answer.js';
import { sideBySide } from '../harness/measuring.js';
import { startServer } from '../harness/redis.js';

/** Three pauses, so that the polled lock is not judged by one that suits it badly. */
const POLLED = ['pollingReadWrite@1', 'pollingReadWrite@5', 'pollingReadWrite@20'];
const ROUNDS = 9;

export const readWrite: Question = { name: 'read-write', answer: async () => [await ask()] };

async function ask(): Promise<Answer> {
  const server = await startServer();
  try {
    const rounds = await sideBySide(server, ['holdfast', ...POLLED], ROUNDS, { callers: 64, durationMs: 400, keys: 'shared', work: 'turn', reads: 0.9 });
    const ours = 'Holdfast';
    const polled = POLLED.map((entry) => contenderNamed(entry).name);
    const best = polled.reduce((a, b) => (rounds.median(a, 'cyclesPerSecond') >= rounds.median(b, 'cyclesPerSecond') ? a : b));
    return {
      title: 'Read-write, 64 callers in one process, 90 % reads',
      method: `Every caller wants the same key, nine times in ten for reading, and holds it for one setImmediate. ${ROUNDS} rounds of 400 ms, medians.`,
      columns: ['', 'operations/s', 'commands an operation', 'client CPU, µs', 'Holdfast’s rate, of this'],
      rows: rounds.names.map((name) => [
        name,
        digits(rounds.median(name, 'cyclesPerSecond')),
        digits(rounds.median(name, 'commands')),
        digits(rounds.median(name, 'clientCpuUs')),
        digits(rounds.rateRatio(ours, name)),
      ]),
      figures: [
        { what: 'commands an operation', measured: rounds.median(ours, 'commands'), goal: { atMost: 1 } },
        { what: `rate, of the best polled one (${best})`, measured: rounds.rateRatio(ours, best), goal: { atLeast: 6 } },
      ],
    };
  } finally {
    await server.stop();
  }
}
