/** What the server refuses for one Redis key, which another program has written to, concerns the locks of that key alone. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockState } from '../../../lib/core/port/lock-state.js';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import type { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { openRedlock, startVoters } from '../../support/redlock-store.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';

const keys = new RedisKeys('lock');
let store: RedisStore;
let reports: string[];

const server = forAll(startRedis);
beforeEach(async () => {
  reports = [];
  store = await openRedisStore(server.url, 'p', { report: ({ message }) => reports.push(message) });
});
afterEach(async () => {
  await closeStores();
  await server.command('FLUSHALL');
});

function request(key: string, how: Partial<AcquireRequest> = {}): AcquireRequest {
  return acquireRequest({ key, ...how });
}

function redisKeysOf(key: string): { lock: string; queue: string; fence: string } {
  const { lockKey: lock, queueKey: queue, fenceKey: fence } = keys.spotOf(key);
  return { lock, queue, fence };
}

async function damage(redisKey: string, on = server): Promise<void> {
  await on.command('DEL', redisKey);
  await on.command('RPUSH', redisKey, 'of another program');
}

/** Locks that share no fence with each other. */
function strangers(count: number): string[] {
  const groups = new Map<number, string>();
  for (let i = 0; groups.size < count; i++) groups.set(keys.groupOf(`order:${i}`), `order:${i}`);
  return [...groups.values()];
}

async function take(all: readonly string[], how?: Partial<AcquireRequest>): Promise<AcquireRequest[]> {
  const requests = all.map((key) => request(key, how));
  for (const outcome of await Promise.all(requests.map((one) => store.acquire(one)))) expect(outcome.kind).toBe('granted');
  return requests;
}

/** For which lock, at which Redis key, what to do, and that trying again is of no use. */
function told(key: string, redisKey: string): object {
  const message = expect.stringMatching(new RegExp(`^Lock '${key}': .*(?:WRONGTYPE|DAMAGED).*'${redisKey.replace(/[{}]/g, '\\$&')}' .*delete or rename it`));
  return { code: 'LOCK_STORE', key, retryable: false, message };
}

describe('a lock whose Redis key holds something else', () => {
  it('is named by the error of its release, and the locks that were given back in the same command are told as released', async () => {
    const held = await take(strangers(8));
    const { key } = held[3]!;
    await damage(redisKeysOf(key).lock);
    const outcomes = await Promise.allSettled(held.map((one) => store.release(one)));
    outcomes.forEach((outcome, n) => {
      if (n === 3) expect(outcome).toMatchObject({ status: 'rejected', reason: told(key, redisKeysOf(key).lock) });
      else expect(outcome).toEqual({ status: 'fulfilled', value: 'released' });
    });
  });

  it('is named by the error of its request, and the others of the same command are granted with the fences of one grant', async () => {
    const all = strangers(8);
    await damage(redisKeysOf(all[5]!).lock);
    const requests = all.map((key) => request(key));
    const outcomes = await Promise.allSettled(requests.map((one) => store.acquire(one)));
    outcomes.forEach((outcome, n) => {
      if (n === 5) expect(outcome).toMatchObject({ status: 'rejected', reason: told(all[5]!, redisKeysOf(all[5]!).lock) });
      else expect(outcome).toMatchObject({ status: 'fulfilled', value: { kind: 'granted' } });
    });
  });

  it('is the only one of its renewal batch that is not renewed', async () => {
    const held = await take(strangers(20));
    await damage(redisKeysOf(held[7]!.key).lock);
    const outcomes = await Promise.all(held.map((each) => store.renew(each)));
    outcomes.forEach((outcome, n) => {
      if (n !== 7) return expect(outcome.kind).toBe('renewed');
      expect(outcome).toMatchObject({ kind: 'unknown', cause: told(held[7]!.key, redisKeysOf(held[7]!.key).lock) });
    });
  });

  it('is the only one whose waiter cannot keep its place', async () => {
    const held = await take(strangers(6));
    const waiting = held.map(({ key }) => request(key));
    for (const one of waiting) expect((await store.acquire(one)).kind).toBe('waiting');
    await damage(redisKeysOf(held[2]!.key).lock);
    await damage(redisKeysOf(held[4]!.key).queue);
    const outcomes = await Promise.allSettled(waiting.map((one) => store.acquire(one)));
    expect(outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value.kind : 'failed'))).toEqual(['waiting', 'waiting', 'failed', 'waiting', 'failed', 'waiting']);
    expect(outcomes[4]).toMatchObject({ reason: told(held[4]!.key, redisKeysOf(held[4]!.key).queue) });
  });

  it('is left out of a list of all locks, which tells the operator why', async () => {
    const held = await take(strangers(12));
    await damage(redisKeysOf(held[4]!.key).lock);
    const list = async (): Promise<string[]> => {
      const found: LockState[] = [];
      for await (const state of store.list()) found.push(state);
      return found.map(({ key }) => key).sort();
    };
    const others = held.map(({ key }) => key).filter((key) => key !== held[4]!.key);
    expect(await list()).toEqual(others.sort());
    expect(await list()).toEqual(others);
    // Nest's log has one line of a kind in ten seconds (logReports).
    const line = expect.stringMatching(`^A list of locks leaves out one that is damaged. Lock '${held[4]!.key}': .*WRONGTYPE`);
    expect(reports).toEqual([line, line]);
    await expect(store.inspect(held[4]!.key)).rejects.toMatchObject(told(held[4]!.key, redisKeysOf(held[4]!.key).lock));
  });

  it('can be had again once that is deleted', async () => {
    await damage(redisKeysOf('k').lock);
    await expect(store.acquire(request('k'))).rejects.toMatchObject({ retryable: false });
    await server.command('DEL', redisKeysOf('k').lock);
    expect((await store.acquire(request('k'))).kind).toBe('granted');
  });
});

describe('a slot group whose fence is not one', () => {
  it.each(['another type', 'no number'])('(%s) grants nothing, and the locks of other groups are granted in the same command', async (how) => {
    const [bad, good] = strangers(2) as [string, string];
    if (how === 'no number') await server.command('SET', redisKeysOf(bad).fence, 'of another program');
    else await damage(redisKeysOf(bad).fence);
    const [refused, granted] = await Promise.allSettled([store.acquire(request(bad)), store.acquire(request(good))]);
    expect(refused).toMatchObject({ status: 'rejected', reason: told(bad, redisKeysOf(bad).fence) });
    expect(granted).toMatchObject({ status: 'fulfilled', value: { kind: 'granted' } });
  });
});

describe('on a Redlock', () => {
  const masters = forAll(() => startVoters(3));

  it('the damage of one lock on every node leaves the others of its batch and of a list as they are', async () => {
    const redlock = await openRedlock(masters, 'p', { report: ({ message }) => reports.push(message) });
    const held = strangers(5).map((key) => request(key, { queue: false }));
    for (const one of held) expect((await redlock.acquire(one)).kind).toBe('granted');
    for (const master of masters) await damage(redisKeysOf(held[1]!.key).lock, master);
    // As on one Redis: whoever holds it is told at the end of trust, unless an operator mends the key before.
    expect((await Promise.all(held.map((each) => redlock.renew(each)))).map(({ kind }) => kind)).toEqual(['renewed', 'unknown', 'renewed', 'renewed', 'renewed']);
    const found: string[] = [];
    for await (const { key } of redlock.list()) found.push(key);
    expect(found.sort()).toEqual(held.filter((_, n) => n !== 1).map(({ key }) => key).sort());
    // A list looks at two of the three nodes, and each that is damaged is named, because the key has to be deleted there too.
    expect(reports).toEqual([0, 1].map((n) => expect.stringMatching(`Lock '${held[1]!.key}': .* on 127.0.0.1:${masters[n]!.port}`)));
  });
});
