/**
 * Does a hand-over cost the same with 4 waiters as with 1,000? Waiters are separate requests through the store's port,
 * over four stores as four processes would have, so that nothing inside a process hides them.
 */
import { contenderNamed } from '../contenders/all.js';
import { digits, type Answer, type Question } from '../harness/answer.js';
import { withCrew } from '../harness/crew.js';
import { quantile } from '../harness/loop.js';
import { measure, type Sample } from '../harness/measuring.js';
import { startServer, type BenchServer } from '../harness/redis.js';
import { StoreWaiters, type WaitersRun } from '../harness/store-waiters.js';

const WAITERS = [4, 256, 1_000] as const;
const ROUNDS = 5;
const ROUND_MS = 1_500;
const PEERS = ['redisSemaphore', 'redlock5', 'nodeRedisson'];

export const manyWaiters: Question = { name: 'many-waiters', answer: async () => [await ask()] };

async function ask(): Promise<Answer> {
  const server = await startServer();
  try {
    const ours = await ourRuns(server);
    const peers = new Map<string, Sample[]>();
    for (const entry of PEERS) {
      const samples: Sample[] = [];
      for (const callers of WAITERS) {
        const loop = { callers, durationMs: 2_000, keys: 'shared', work: 'nothing' } as const;
        samples.push(await withCrew([entry], server.ports, ([member]) => measure(server, member!, loop)));
      }
      peers.set(contenderNamed(entry).name, samples);
    }
    return describe(ours, peers);
  } finally {
    await server.stop();
  }
}

/** Medians for each number of waiters, taken in turns. */
async function ourRuns(server: BenchServer): Promise<WaitersRun[]> {
  const runs = WAITERS.map(() => [] as WaitersRun[]);
  for (let round = -1; round < ROUNDS; round++) {
    for (const [at, waiters] of WAITERS.entries()) {
      const run = await new StoreWaiters(server, waiters, ROUND_MS).run();
      if (round >= 0) runs[at]!.push(run);
    }
  }
  const median = (of: readonly WaitersRun[], figure: keyof WaitersRun): number => quantile(of.map((run) => run[figure]), 0.5);
  return runs.map((of) => ({ perSecond: median(of, 'perSecond'), commands: median(of, 'commands'), questions: median(of, 'questions'), deadMs: median(of, 'deadMs'), deadP99Ms: median(of, 'deadP99Ms') }));
}

function describe(ours: readonly WaitersRun[], peers: ReadonlyMap<string, readonly Sample[]>): Answer {
  const few = ours[0]!;
  const many = ours.at(-1)!;
  const rows = WAITERS.flatMap((waiters, at) => [
    ['Holdfast', waiters, digits(ours[at]!.perSecond), digits(ours[at]!.commands), digits(ours[at]!.questions), digits(ours[at]!.deadMs), digits(ours[at]!.deadP99Ms)],
    ...[...peers].map(([name, samples]) => [name, waiters, digits(samples[at]!.cyclesPerSecond), digits(samples[at]!.commands), '', '', '']),
  ]);
  return {
    title: 'Waiters in the store: 4, 256, 1,000',
    method:
      `Every waiter takes a place, holds for nothing, releases and queues again. Holdfast: ${ROUNDS} rounds of ${ROUND_MS} ms each, medians; commands are all that reached Redis, those that keep places among them. ` +
      'Dead time: from sending a release to hearing of the next grant. The others: as many callers in one process, 2 s, their documented pause.',
    columns: ['', 'waiters', 'hand-overs/s', 'commands a hand-over', 'of these to keep places', 'dead time, ms', 'dead time p99, ms'],
    rows,
    figures: [
      { what: 'commands a hand-over with 1,000 waiters, those apart that keep places', measured: many.commands - many.questions, goal: { atMost: 2.1 } },
      { what: 'dead time with 256 waiters, of that with 4', measured: ours[1]!.deadMs / few.deadMs, goal: { atMost: 1.3 } },
      { what: 'dead time with 1,000 waiters, of that with 4', measured: many.deadMs / few.deadMs, goal: { atMost: 1.3 } },
    ],
  };
}
