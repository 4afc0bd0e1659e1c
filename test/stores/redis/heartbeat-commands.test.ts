/** What a Redis answers to the heartbeats of waiters, and what becomes of it, without a server. */
import { ToldHolds } from '../../../lib/stores/redis/told-holds.js';
import { describe, expect, it } from '@jest/globals';
import type { HeartbeatOutcome } from '../../../lib/core/port/lock-store.js';
import { HeartbeatCommands, type HeartbeatParts } from '../../../lib/stores/redis/heartbeat-commands.js';
import { Places } from '../../../lib/stores/redis/places.js';
import { Trust } from '../../../lib/stores/redis/trust.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { marginOf } from '../../../lib/stores/wire/server-clock.js';
import { acquireRequest } from '../../support/acquire-request.js';

const keys = new RedisKeys('lock');
const SERVER = 1_795_236_000_000;

interface Call {
  readonly key: string | undefined;
  readonly keys: readonly string[];
  readonly args: readonly unknown[];
}

const GONE = [0, 0, 0, 0, 0, 0];
const waitingFor = (leftMs: number) => [2, leftMs, 0, 0, 0, 0];
const grantOf = (fence: number, fences = 1, contended = 0) => [1, fence, fences, 1, SERVER + 1_500, contended];

/** A server that answers the waiter of each key as told, or fails. */
function stage({ isCluster = false, fails = '' } = {}) {
  const [calls, missed]: [Call[], string[]] = [[], []];
  const answers = new Map<string, unknown[]>();
  const [places, trust] = [new Places(), new Trust((group) => (isCluster ? group : 0))];
  const run = async (call: Call, decode: (reply: unknown, sentAt: number, receivedAt: number) => void) => {
    calls.push(call);
    await new Promise(setImmediate);
    if (fails !== '') throw new Error(fails);
    const asked = call.keys.filter((_, n) => n % 3 === 0).map((lockKey) => answers.get(keys.keyOf(lockKey)!) ?? GONE);
    return decode([SERVER, ...asked.flat()], 1_000, 1_010);
  };
  const memories = { of: (group: number) => `sent ${group}`, knownOf: (group: number) => `known ${group}` };
  const parts = { runner: { run }, keys, places, trust, memories, toldHolds: new ToldHolds(60_000), node: 'a:6379', maxLeaseMs: 60_000, recoveryMs: 400, missed: (id: string) => void missed.push(id) };
  const beat = (...waiting: string[]) => new HeartbeatCommands(parts as unknown as HeartbeatParts).heartbeat(waiting.map((key) => ({ key, id: `p.${key}` })));
  const place = (key: string, floor: number, minReplicas = 0) => places.add(acquireRequest({ key, id: `p.${key}`, minReplicas }), keys.groupOf(key), floor);
  return { calls, missed, answers, places, trust, beat, place };
}

describe('A heartbeat', () => {
  it('tells the fences that were seen and the memory that is known, and its answer the time of the server', async () => {
    const { calls, beat, trust } = stage();
    const group = keys.groupOf('a');
    trust.floors.saw(group, 77);
    await beat('a');
    const { lockKey, queueKey, fenceKey } = keys.spotOf('a');
    expect(calls).toMatchObject([{ key: 'a', keys: [lockKey, queueKey, fenceKey], args: ['p.a', 77, 60_000, 400, `sent ${group}`] }]);
    expect(trust.clock.before(0, 1_010, 1_010)).toBe(SERVER);
  });

  it('of several waiters goes in one command, and each gets its own outcome; places of those who are gone are dropped', async () => {
    const { calls, missed, answers, places, beat, place } = stage();
    for (const key of ['a', 'b', 'c']) place(key, 0);
    answers.set('b', waitingFor(-1));
    answers.set('c', waitingFor(300));
    answers.set('d', waitingFor(0));
    expect(await beat('a', 'b', 'c', 'd')).toEqual([
      { kind: 'gone' }, { kind: 'waiting', askAgainInMs: undefined }, { kind: 'waiting', askAgainInMs: 300 }, { kind: 'waiting', askAgainInMs: 0 },
    ] satisfies HeartbeatOutcome[]);
    expect([calls.length, calls[0]!.key, places.all().map(({ request }) => request.key), missed]).toEqual([1, undefined, ['b', 'c'], []]);
  });

  it('goes to each master of a Cluster, and no more than a hundred go together', async () => {
    const cluster = stage({ isCluster: true });
    const [one, other] = ['a', 'b'];
    expect(keys.groupOf(one)).not.toBe(keys.groupOf(other));
    cluster.answers.set(other, waitingFor(5));
    expect(await cluster.beat(one, other, one)).toEqual([{ kind: 'gone' }, { kind: 'waiting', askAgainInMs: 5 }, { kind: 'gone' }]);
    expect(cluster.calls.map((call) => call.keys.length)).toEqual([6, 3]);
    expect(cluster.trust.clock.trustedUntil(keys.groupOf(other), SERVER + 100, 100, 1_010)).toBeDefined();
    const alone = stage();
    expect(await alone.beat(...Array.from({ length: 101 }, (_, n) => `k${n}`))).toHaveLength(101);
    expect(alone.calls.map((call) => call.keys.length)).toEqual([300, 3]);
    expect(await alone.beat()).toEqual([]);
  });

  it('brings a grant whose message was lost: the place ends, and the message is missed', async () => {
    const { missed, answers, places, beat, place } = stage();
    place('a', 6);
    answers.set('a', grantOf(7, 3, 1));
    expect(await beat('a')).toEqual([{
      kind: 'granted',
      grant: { fence: 7, fences: 3, mode: 'write', trustedUntil: 1_000 + 1_500 - marginOf(1_500), contended: true, memory: `known ${keys.groupOf('a')}` },
    }]);
    expect([missed, places.count]).toEqual([['p.a'], 0]);
  });

  it('brings a grant to one that has no place here any more, whose message nobody misses', async () => {
    const { missed, answers, beat } = stage();
    answers.set('a', grantOf(7));
    expect(await beat('a')).toMatchObject([{ kind: 'granted', grant: { fence: 7 } }]);
    expect(missed).toEqual([]);
  });

  it.each<[string, number, number]>([['a fence that was seen before', 7, 0], ['no replica that has it', 6, 1]])('that brings a grant with %s makes the waiter ask, who keeps the place', async (_what, floor, minReplicas) => {
    const { missed, answers, places, beat, place } = stage();
    const kept = place('a', floor, minReplicas);
    answers.set('a', grantOf(7));
    expect(await beat('a')).toEqual([{ kind: 'waiting', askAgainInMs: 0 }]);
    expect([missed, places.has(kept)]).toEqual([['p.a'], true]);
  });

  it('without an answer leaves the outcome unknown, for all that it was sent for', async () => {
    const { beat } = stage({ fails: 'not connected' });
    const [one, two] = await beat('a', 'b');
    expect([one, two]).toEqual([one, one]);
    expect(one).toMatchObject({ kind: 'unknown', cause: { code: 'LOCK_STORE', message: expect.stringContaining('Locks: heartbeat failed on a:6379: not connected.') } });
    expect((await beat('a'))[0]).toMatchObject({ cause: { message: expect.stringContaining(`Lock 'a': heartbeat failed on a:6379`) } });
  });

  it('of one whose Redis key holds something else says which, and the others have their outcomes', async () => {
    const { answers, beat } = stage();
    answers.set('a', [3, 'WRONGTYPE Operation against a key holding the wrong kind of value', 0, 0, 0, 0]);
    answers.set('b', waitingFor(5));
    const [one, two] = await beat('a', 'b');
    const { lockKey, queueKey, fenceKey } = keys.spotOf('a');
    const message = (one as { cause: Error }).cause.message;
    for (const part of [`Lock 'a': heartbeat failed on a:6379: WRONGTYPE`, lockKey, queueKey, fenceKey]) expect(message).toContain(part);
    expect(two).toEqual({ kind: 'waiting', askAgainInMs: 5 });
  });
});
