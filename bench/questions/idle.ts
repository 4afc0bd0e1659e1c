/**
 * What does a process cost that has used locks and has nothing to do now?
 */
import { digits, type Answer, type Question } from '../harness/answer.js';
import { withCrew } from '../harness/crew.js';
import { startServer } from '../harness/redis.js';

const IDLE_MS = 5_000;

export const idle: Question = { name: 'idle', answer: async () => [await ask()] };

async function ask(): Promise<Answer> {
  const server = await startServer();
  try {
    return await withCrew(['holdfast'], server.ports, async ([member]) => {
      await member!.order({ kind: 'loop', loop: { callers: 64, durationMs: 500, keys: 'shared', work: 'turn' } });
      await member!.order({ kind: 'loop', loop: { callers: 64, durationMs: 500, keys: 'own', work: 'nothing' } });
      const { cost } = await server.costOf(() => new Promise((resolve) => setTimeout(resolve, IDLE_MS)));
      const timers = await member!.order<number>({ kind: 'timers' });
      const commands = [...cost.calls].filter(([name]) => name !== 'info').reduce((sum, [, count]) => sum + count, 0);
      return {
        title: 'A process with nothing to do',
        method: `After a second of contended and uncontended work: all commands of any kind that reached Redis in ${IDLE_MS / 1000} s, and the timers that exist in the process then, those that do not keep it alive included.`,
        columns: ['', 'commands/s', 'timers'],
        rows: [['Holdfast', digits(commands / (IDLE_MS / 1000)), timers]],
        figures: [
          { what: 'commands a second', measured: commands / (IDLE_MS / 1000), goal: { atMost: 0 } },
          { what: 'timers', measured: timers, goal: { atMost: 0 } },
        ],
      };
    }, ['timers']);
  } finally {
    await server.stop();
  }
}
