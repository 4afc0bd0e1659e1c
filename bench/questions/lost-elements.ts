/**
 * A set that a lock guards, in processes that are stopped for longer than a lease while the lock's server is restarted without its
 * data now and then: how many elements are gone at the end whose callers had been told that they were added?
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { startRedis, type RedisServer } from '../../test/support/redis-server.js';
import { contenderNamed } from '../contenders/all.js';
import type { Answer, Question } from '../harness/answer.js';
import { withCrew, type Member } from '../harness/crew.js';
import type { Addition } from '../harness/elements.js';
import { keepHistory, setHistory } from '../harness/jepsen.js';

const OURS = 'holdfastFenced';
const CONTENDERS = [OURS, 'holdfastUnfenced', 'redlock5Guard', 'redisSemaphoreGuard', 'redlockUniversalGuard', 'nodeRedissonGuard'];
const PROCESSES = 4;
const CALLERS = 4;
const LEASE_MS = 500;
const ROUNDS = 16;
const CALM_MS = 400;
const STOPPED_MS = 1_200;
/** In every so many rounds the server of the locks is restarted without its data. */
const ROUNDS_A_RESTART = 4;
const KEY = 'set';

interface Found {
  readonly tries: number;
  readonly added: number;
  readonly lost: number;
  readonly refused: number;
  /** How many were inside while another was. */
  readonly beside: number;
}

export const lostElements: Question = { name: 'lost-elements', answer: async () => [describe(await askAll())] };

async function askAll(): Promise<ReadonlyMap<string, Found>> {
  const found = new Map<string, Found>();
  for (const entry of CONTENDERS) found.set(entry, await ask(entry));
  return found;
}

async function ask(entry: string): Promise<Found> {
  const [locks, data] = [await startRedis(), await startRedis()];
  try {
    const additions = await withCrew(new Array<string>(PROCESSES).fill(entry), [locks.port], async (crew) => {
      const run = { callers: CALLERS, key: KEY, leaseMs: LEASE_MS, durationMs: ROUNDS * (CALM_MS + STOPPED_MS), dataPort: data.port };
      const working = crew.map((member, n) => member.order<Addition[]>({ kind: 'elements', run: { ...run, first: 1_000_000 * (n + 1) } }));
      await torment(locks, crew);
      return (await Promise.all(working)).flat();
    });
    const read = String((await data.command('HGET', KEY, 'elements')) ?? '').split(',').map(Number);
    await keepHistory(`lost-elements-${entry}`, setHistory(additions, read));
    return judge(additions, new Set(read));
  } finally {
    await Promise.all([locks.stop(), data.stop()]);
  }
}

/** Stops half of the processes at a time, each time other ones, so that the lock is often with one that is stopped. */
async function torment(locks: RedisServer, crew: readonly Member[]): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    await sleep(CALM_MS);
    const victims = crew.filter((_, n) => (n + round) % 2 === 0);
    for (const victim of victims) victim.stop();
    await sleep(STOPPED_MS / 2);
    if (round % ROUNDS_A_RESTART === ROUNDS_A_RESTART - 1) await locks.restart({ keepData: false });
    await sleep(STOPPED_MS / 2);
    for (const victim of victims) victim.goOn();
  }
}

function judge(additions: readonly Addition[], kept: ReadonlySet<number>): Found {
  const added = additions.filter(({ outcome }) => outcome === 'added');
  return {
    tries: additions.length,
    added: added.length,
    lost: added.filter(({ element }) => !kept.has(element)).length,
    refused: additions.filter(({ began, outcome }) => began !== undefined && outcome === 'refused').length,
    beside: insideBesideAnother(additions),
  };
}

function insideBesideAnother(additions: readonly Addition[]): number {
  const inside = additions.flatMap(({ began, ended }) => (began === undefined ? [] : [{ began, ended: ended ?? Infinity }]));
  inside.sort((one, other) => one.began - other.began);
  let [count, latest] = [0, -Infinity];
  for (const { began, ended } of inside) {
    if (began < latest) count += 1;
    latest = Math.max(latest, ended);
  }
  return count;
}

function describe(found: ReadonlyMap<string, Found>): Answer {
  return {
    title: 'Elements lost from a set that a lock guards',
    method:
      `${PROCESSES} processes of ${CALLERS} callers read a set, work for 5 ms and write it back with one element more, under one lock with a lease of ` +
      `${LEASE_MS} ms that each library renews. Half of the processes are stopped for ${STOPPED_MS} ms, ${ROUNDS} times, and in every ${ROUNDS_A_RESTART}th of these ` +
      'times the server of the locks is restarted without its data. Before it writes, the work asks the library whether the lock is lost, where the library can tell. ' +
      'Lost: the caller was told that all went well, and the element is not in the set at the end. The set is on a server that no fault touches. One run of each.',
    columns: ['', 'tries', 'added', 'lost', 'refused inside', 'inside beside another'],
    rows: [...found].map(([entry, { tries, added, lost, refused, beside }]) => [contenderNamed(entry).name, tries, added, lost, refused, beside]),
    figures: [{ what: 'elements lost with fences', measured: found.get(OURS)!.lost, goal: { atMost: 0 } }],
  };
}
