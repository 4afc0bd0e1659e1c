import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { startRedis } from '../../support/redis-server.js';
import { openRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';

describe('Calls made in one turn of the event loop', () => {
  let redis: Redis;
  let store: RedisStore;

  afterAll(() => store.close());
  const server = forAll(startRedis);
  beforeAll(async () => {
    redis = server.client();
    store = await openRedisStore(server.url, 'p');
    await store.release({ key: 'warm', id: 'p.none' });
  });

  beforeEach(async () => {
    await redis.config('RESETSTAT');
  });

  function request(key: string, given: Partial<AcquireRequest> = {}): AcquireRequest {
    return acquireRequest({ key, leaseMs: 10_000, notAfter: systemClock.now() + 2_000, ...given });
  }

  async function scriptsRun(): Promise<number> {
    const stats = await redis.info('commandstats');
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  }

  it('go in one command for each 8, after a first one that leaves at once, and each gets its own answer', async () => {
    const requests = Array.from({ length: 100 }, (_, n) => request(`many:${n}`));
    const outcomes = await Promise.all(requests.map((one) => store.acquire(one)));
    expect(outcomes.every(({ kind }) => kind === 'granted')).toBe(true);
    expect(await scriptsRun()).toBe(14);
    const again = requests.slice(0, 10).map(({ key }) => request(key, { queue: false }));
    const refused = await Promise.all([...again, request('free')].map((one) => store.acquire(one)));
    expect(refused.map(({ kind }) => kind)).toEqual([...Array<string>(10).fill('busy'), 'granted']);
    const released = await Promise.all([...requests, { key: 'many:0', id: 'p.stranger' }].map(({ key, id }) => store.release({ key, id })));
    expect(released).toEqual([...Array<string>(100).fill('released'), 'lost']);
  });

  it('keep their order for each lock', async () => {
    const [first, second] = [request('k'), request('k')];
    const outcomes = await Promise.all([store.acquire(first), store.release(first), store.acquire(second), store.release(second)]);
    expect(outcomes.map((outcome) => (typeof outcome === 'string' ? outcome : outcome.kind))).toEqual(['granted', 'released', 'granted', 'released']);
  });

  it('that want the same lock are served in their order', async () => {
    const [fenced, plain] = [request('same', { fences: 5 }), request('same')];
    const outcomes = await Promise.all([store.acquire(fenced), store.acquire(plain)]);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['granted', 'waiting']);
    await store.release(plain);
    await store.release(fenced);
  });

  it('that give back permits of one lock share a command, in their order', async () => {
    const how = { permits: 3 } as const;
    const held = [request('permits', how), request('permits', how), request('permits', how)];
    for (const one of held) await store.acquire(one);
    await redis.config('RESETSTAT');
    const next = held.map(({ id }) => request('permits', { ...how, replaces: id, handsOn: true }));
    const outcomes = await Promise.all(next.map((one) => store.acquire(one)));
    // The first one leaves at once.
    expect(await scriptsRun()).toBe(2);
    const fences = outcomes.map((outcome) => (outcome.kind === 'granted' ? outcome.grant.fence : 0));
    expect(fences).toEqual([...fences].sort((one, other) => one - other));
    expect(fences[0]).toBeGreaterThan(0);
    for (const one of next) await store.release(one);
  });

  it('fail nobody else when the server refuses one of them', async () => {
    const bad = request('bad');
    const [lockKey] = await (async () => {
      await store.acquire(bad);
      const keys = await redis.keys('*:l:bad');
      await store.release(bad);
      return keys;
    })();
    await redis.hset(lockKey!, 'not', 'a lock');
    const good = request('good');
    const [refused, granted] = await Promise.allSettled([store.acquire(request('bad')), store.acquire(good)]);
    expect(refused).toMatchObject({ status: 'rejected', reason: { code: 'LOCK_STORE', key: 'bad' } });
    expect(granted).toMatchObject({ status: 'fulfilled', value: { kind: 'granted' } });
    await redis.del(lockKey!);
    await store.release(good);
  });

  it('name the lock each of them was for when there is no answer', async () => {
    await server.pause();
    const outcomes = await Promise.allSettled([store.acquire(request('a')), store.acquire(request('b'))]);
    await server.resume();
    expect(outcomes).toMatchObject([
      { reason: { code: 'LOCK_STORE', key: 'a', message: expect.stringContaining("Lock 'a'") } },
      { reason: { code: 'LOCK_STORE', key: 'b', message: expect.stringContaining("Lock 'b'") } },
    ]);
  });
});
