/**
 * One hot key, one process, 64 callers: what does a turn cost beside a mutex that never leaves the process?
 */
import { peerNames } from '../contenders/all.js';
import { oneTurn, type Contender } from '../contenders/contender.js';
import { holdfast } from '../contenders/holdfast.js';
import { asyncMutex } from '../contenders/local-mutex.js';
import { digits, type Answer, type Question } from '../harness/answer.js';
import { sideBySide, type Rounds } from '../harness/measuring.js';
import { startServer, type BenchServer } from '../harness/redis.js';

const CALLERS = 64;
const TURNS = 2_000;
/** A pause short enough to hurt nobody's rate; Redis pays for it. Peers run with this and with their documented pause. */
const EAGER_MS = 5;

export const hotKeyOneProcess: Question = { name: 'hot-key-one-process', answer: async () => [await ask()] };

async function ask(): Promise<Answer> {
  const server = await startServer();
  try {
    const polling = peerNames.filter((name) => name !== 'nodeRedisson').flatMap((name) => [name, `${name}@${EAGER_MS}`]);
    const loop = { callers: CALLERS, keys: 'shared', work: 'turn' } as const;
    const fast = await sideBySide(server, ['asyncMutex', 'holdfast'], 15, { ...loop, durationMs: 250 });
    const slow = await sideBySide(server, ['asyncMutex', 'nodeRedisson', ...polling], 1, { ...loop, durationMs: 1_500 });
    const ours = 'Holdfast';
    const { least, most } = await turnsOfEachCaller(server, holdfast());
    const all: [string, Rounds][] = [...fast.names.map((name) => [name, fast] as [string, Rounds]), ...slow.names.slice(1).map((name) => [name, slow] as [string, Rounds])];
    return {
      title: `A hot key in one process, ${CALLERS} callers`,
      method:
        'Every caller wants the same key again and again and holds it for one setImmediate. async-mutex and Holdfast in turns, 15 rounds of 250 ms; ' +
        `the others one round of 1.5 s each, with their documented pause and with ${EAGER_MS} ms. ` +
        'Unfairness: turns of the busiest caller over those of the one that got fewest; ' +
        `where a releasing caller takes the lock again at once, few commands mean that others starve. Turns of each caller: ${TURNS.toLocaleString('en-US')} in all.`,
      columns: ['', 'turns/s', 'of async-mutex', 'commands a turn', 'client CPU, µs', 'unfairness'],
      rows: [
        ...all.map(([name, rounds]) => [
          name,
          digits(rounds.median(name, 'cyclesPerSecond')),
          digits(rounds.rateRatio(name, asyncMutex.name)),
          digits(rounds.median(name, 'commands')),
          digits(rounds.median(name, 'clientCpuUs')),
          unfairness(rounds.median(name, 'unfairness')),
        ]),
        [`${ours}: turns of the least and the most served caller`, `${least} and ${most}`, '', '', '', ''],
      ],
      figures: [
        { what: 'rate, of async-mutex', measured: fast.rateRatio(ours, asyncMutex.name), goal: { atLeast: 0.75 } },
        { what: 'commands a hand-over', measured: fast.median(ours, 'commands'), goal: { atMost: 0.1 } },
        { what: `fewest turns of a caller in ${TURNS}`, measured: least, goal: { atLeast: 31 } },
        { what: `most turns of a caller in ${TURNS}`, measured: most, goal: { atMost: 32 } },
      ],
    };
  } finally {
    await server.stop();
  }
}

/** A caller that got nothing at all makes it infinite. */
function unfairness(ratio: number): string {
  return ratio === Infinity ? 'some got none' : digits(ratio);
}

async function turnsOfEachCaller(server: BenchServer, contender: Contender): Promise<{ least: number; most: number }> {
  const lock = await contender.open(server.port, server.ports);
  const turns = new Array<number>(CALLERS).fill(0);
  let served = 0;
  const calling = turns.map(async (_, caller) => {
    while (served < TURNS) {
      await lock.withLock('fair', async () => {
        if (served++ < TURNS) turns[caller]!++;
        await oneTurn();
      });
    }
  });
  await Promise.all(calling);
  await lock.close();
  return { least: Math.min(...turns), most: Math.max(...turns) };
}
