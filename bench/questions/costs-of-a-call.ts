/**
 * What does an uncontended call cost in its own process, in counts that do not depend on the machine?
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { digits, type Answer, type Question } from '../harness/answer.js';
import { startServer } from '../harness/redis.js';

const ROOT = new URL('../../../../', import.meta.url);
/** The library as bench/start.mjs compiled it. */
const DIST = new URL('build/bench/package', ROOT);
const CALLERS = [1, 64] as const;
const WAYS = ['floor', 'withLock', 'locked'] as const;
const NAMES = { floor: 'floor', withLock: 'withLock', locked: '@Locked' };

type Way = (typeof WAYS)[number];

/** What scripts/count-calls.mjs prints, for each cycle; the floor has no functions of ours. */
interface Counts {
  readonly calls?: number;
  readonly functions?: number;
  readonly files?: number;
  readonly clockReads: number;
  readonly timersSet: number;
  readonly timersCleared: number;
  readonly promises: number;
  readonly bytes: number;
}

export const costsOfACall: Question = {
  name: 'costs-of-a-call',
  answer: async () => {
    const answers: Answer[] = [];
    for (const callers of CALLERS) answers.push(await ask(callers));
    return answers;
  },
};

async function ask(callers: number): Promise<Answer> {
  const server = await startServer();
  try {
    const counts = {} as Record<Way, Counts>;
    for (const way of WAYS) counts[way] = await countsOf(server.port, way, callers);
    const { floor, withLock } = counts;
    return {
      title: callers === 1 ? 'Counts of an uncontended call, one after another' : `Counts of an uncontended call, ${callers} callers on ${callers} keys`,
      method: 'Acquire and release around nothing, 1,000 times after 3,000 to warm up, each in a process of its own; everything is counted per cycle. Calls, functions and files are those of the library alone.',
      columns: ['', 'calls', 'functions', 'files', 'clock reads', 'timers set', 'timers cleared', 'promises', 'bytes', 'bytes, of the floor'],
      rows: WAYS.map((way) => row(NAMES[way], counts[way], floor)),
      figures: [
        { what: 'calls of withLock', measured: withLock.calls ?? NaN, goal: { atMost: 110 } },
        { what: 'clock reads of withLock', measured: withLock.clockReads, goal: { atMost: 5 } },
        { what: 'timers set or cleared by withLock', measured: withLock.timersSet + withLock.timersCleared, goal: { atMost: 0 } },
        { what: 'bytes of withLock, of the floor', measured: withLock.bytes / floor.bytes, goal: { atMost: 1.6 } },
      ],
    };
  } finally {
    await server.stop();
  }
}

async function countsOf(port: number, way: Way, callers: number): Promise<Counts> {
  const script = fileURLToPath(new URL('scripts/count-calls.mjs', ROOT));
  const env = { ...process.env, HOLDFAST_DIST: fileURLToPath(DIST) };
  const { stdout } = await promisify(execFile)(process.execPath, [script, String(port), way, String(callers)], { env });
  return JSON.parse(stdout) as Counts;
}

function row(name: string, counts: Counts, floor: Counts): (string | number)[] {
  const { calls = NaN, functions = NaN, files = NaN, clockReads, timersSet, timersCleared, promises, bytes } = counts;
  return [name, ...[calls, functions, files, clockReads, timersSet, timersCleared, promises, bytes, bytes / floor.bytes].map(digits)];
}
