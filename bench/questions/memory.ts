/**
 * How much of Redis's memory does a held lock take, and what is left when all are given back?
 */
import { contenderNamed } from '../contenders/all.js';
import { digits, type Answer, type Question } from '../harness/answer.js';
import { withCrew, type Member } from '../harness/crew.js';
import { startServer, type BenchServer } from '../harness/redis.js';

const LOCKS = 10_000;
const CONTENDERS = ['holdfast', 'floor', 'redisSemaphore', 'redlock5', 'redlockUniversal', 'nodeRedisson', 'redisKit'];
/** Holdfast's bounded keys: the fence of each slot group, the wire format, and for ten minutes what a server that had forgotten was told. */
const BOUNDED = /\}:(f|format|q:%heard)$/;

interface Footprint {
  readonly name: string;
  readonly bytes: number;
  readonly grown: number;
  readonly left: number;
  readonly bounded: number;
}

export const memory: Question = { name: 'memory', answer: async () => [await ask()] };

async function ask(): Promise<Answer> {
  const all: Footprint[] = [];
  for (const entry of CONTENDERS) {
    const server = await startServer();
    all.push(await withCrew([entry], server.ports, ([member]) => footprint(server, member!, contenderNamed(entry).name)));
    await server.stop();
  }
  const ours = all[0]!;
  return {
    title: `Redis memory of ${LOCKS.toLocaleString('en-US')} held locks`,
    method:
      'MEMORY USAGE of a lock’s key, the mean of 500; used_memory over the number of locks counts the main dictionary and the expiry table too, and what connections need. ' +
      'All locks were taken and given back once before, so that fences and buffers are there.',
    columns: ['', 'bytes a lock, MEMORY USAGE', 'bytes a lock, used_memory', 'keys left after', 'bounded keys left'],
    rows: all.map(({ name, bytes, grown, left, bounded }) => [name, digits(bytes), digits(Math.round(grown)), left, bounded]),
    figures: [
      { what: 'bytes a lock', measured: ours.bytes, goal: { atMost: 160 } },
      { what: 'lock and queue keys left', measured: ours.left, goal: { atMost: 0 } },
      { what: 'fence, format and note keys left', measured: ours.bounded, goal: { atMost: 258 } },
    ],
  };
}

async function footprint(server: BenchServer, member: Member, name: string): Promise<Footprint> {
  const take = (): Promise<unknown> => member.order({ kind: 'hold', holding: { leases: LOCKS, leaseMs: 30_000, holdMs: 0 } });
  const giveBack = (): Promise<unknown> => member.order({ kind: 'give back' });
  await take();
  await giveBack();
  const before = await server.usedMemory();
  await take();
  const grown = ((await server.usedMemory()) - before) / LOCKS;
  const held = (await server.probe.keys('*')).filter((key) => !BOUNDED.test(key)).slice(0, 500);
  const usages = await Promise.all(held.map((key) => server.probe.memory('USAGE', key)));
  const bytes = usages.reduce<number>((sum, usage) => sum + Number(usage), 0) / held.length;
  await giveBack();
  const left = await server.probe.keys('*');
  const bounded = left.filter((key) => BOUNDED.test(key)).length;
  return { name, bytes, grown, left: left.length - bounded, bounded };
}
