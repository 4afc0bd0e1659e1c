/** `awaitRelease: false` on real servers, by both clients: a release was sent when its call is over. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { AcquireRequest, ReleaseRequest } from '../../../lib/core/port/lock-store.js';
import { LockService } from '../../../lib/lock.service.js';
import type { LockModuleOptions } from '../../../lib/nest/lock-module-options.js';
import type { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import type { ClientPackage } from '../../../lib/stores/wire/redis-target.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { startCluster } from '../../support/redis-cluster.js';
import { type RedisServer, startRedis } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { startVoters } from '../../support/redlock-store.js';
import { forAll } from '../../support/started.js';
import { connectBy } from '../../support/test-client.js';
import { startWorker } from '../../support/worker.js';

const CLIENTS: readonly ClientPackage[] = ['ioredis', 'redis'];
const KEYS = Array.from({ length: 20 }, (_, n) => `k:${n}`);
/** The releases of so many calls are some 200 kB, of which a socket of Node takes 16 to 64 before it asks to wait. */
const MANY = 900;
/** So many loops run at a time, and each takes so many locks one after another. */
const [LOOPS, LOCKS] = [20, 1_000];

afterAll(closeStores);
const redis = forAll(startRedis);
const masters = forAll(() => startVoters(3));
const cluster = forAll(startCluster);

/** The Redis keys of locks that are taken or waited for. */
async function lockKeysOn(servers: readonly RedisServer[]): Promise<unknown[]> {
  const found = await Promise.all(servers.map((server) => server.command('KEYS', '{lock:*}:[lq]:*')));
  return found.flat();
}

describe.each(CLIENTS)('A call that does not wait for its release, by %s', (client) => {
  const targets: readonly (readonly [string, () => LockModuleOptions, () => readonly RedisServer[]])[] = [
    ['one Redis', () => ({ redis: redis.url }), () => [redis]],
    ['a Redlock', () => ({ redis: masters.map(({ url }) => url) }), () => masters],
    ['a Cluster', () => ({ redis: { cluster: cluster.startupNodes } }), () => cluster.masters],
  ];
  it.each(targets)('leaves the lock free on %s when the process exits behind it', async (_kind, target, servers) => {
    for (const keys of [KEYS.slice(0, 1), KEYS]) {
      const process = await startWorker({ ...target(), client });
      void process.ask('exits', { keys }).catch(() => {});
      expect((await process.exited).code).toBe(0);
      // The server may still have to read what the process wrote before it ended. The leases would last for 60 s.
      await eventually(async () => expect(await lockKeysOn(servers())).toEqual([]), 10_000);
    }
  });

  it('leaves very many locks free as well, whose releases are more than a socket takes at once', async () => {
    const process = await startWorker({ redis: redis.url, client });
    void process.ask('exits', { keys: Array.from({ length: MANY }, (_, n) => `${'k'.repeat(100)}${n}`) }).catch(() => {});
    expect((await process.exited).code).toBe(0);
    await eventually(async () => expect(await lockKeysOn([redis])).toEqual([]), 10_000);
  }, 60_000);

  async function open() {
    const store = await openRedisStore(redis.url, `p-${client}`, { connection: connectBy(redis.url, client) });
    return { store, locks: new LockService({ store, process: `p-${client}`, clock: systemClock, awaitRelease: false, waitMs: 0 }) };
  }

  it('is before whatever its process asks next for that lock, so that a call that does not wait is not refused', async () => {
    const { locks } = await open();
    const again = async (key: string, times: number): Promise<void> => {
      for (let n = 0; n < times; n++) await locks.withLock(key, () => {});
    };
    await again('alone', 500);
    await Promise.all(KEYS.map((key) => again(key, 100)));
    await locks.close();
  });

  it('leaves nothing behind in loops over many keys, and few releases are on their way at a time', async () => {
    const { store, locks } = await open();
    let [out, most] = [0, 0];
    const { release } = store;
    Object.assign(store, {
      release: (request: ReleaseRequest) => {
        most = Math.max(most, (out += 1));
        return release(request).finally(() => (out -= 1));
      },
    });
    const loop = async (_: unknown, one: number): Promise<void> => {
      for (let n = 0; n < LOCKS; n++) await locks.withLock(`k:${one}:${n}`, () => {});
    };
    await Promise.all(Array.from({ length: LOOPS }, loop));
    await locks.close();
    expect(out).toBe(0);
    expect(most).toBeLessThanOrEqual(2 * LOOPS);
    expect(await lockKeysOn([redis])).toEqual([]);
  }, 60_000);
});

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

  beforeEach(async () => void (await redis.config('RESETSTAT')));

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

  it('on a new connection go as source, so that a server that does not know the scripts runs them in their order, the first time they come', async () => {
    const { commands } = store.redis.connections;
    const reopened = new Promise((resolve) => commands.events.once('open', () => resolve(undefined)));
    await redis.script('FLUSH');
    await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await reopened;
    await store.redis.readClock();
    const key = 'new';
    const [first, second] = [request(key), request(key, { queue: false })];
    const outcomes = await Promise.all([store.acquire(first), store.release(first), store.acquire(second), store.release(second)]);
    expect(outcomes.map((outcome) => (typeof outcome === 'string' ? outcome : outcome.kind))).toEqual(['granted', 'released', 'granted', 'released']);
    expect(await redis.info('errorstats')).not.toContain('NOSCRIPT');
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

  it('that keep places in one queue share a command, and keep them in their order', async () => {
    const [holder, ...waiters] = Array.from({ length: 10 }, () => request('places'));
    await store.acquire(holder!);
    for (const one of waiters) await store.acquire(one);
    await redis.config('RESETSTAT');
    const outcomes = await Promise.all(waiters.map((one) => store.acquire(one)));
    // The first one leaves at once.
    expect(await scriptsRun()).toBe(2);
    expect(outcomes.map(({ kind }) => kind)).toEqual(Array<string>(9).fill('waiting'));
    const { waiters: inLine } = await store.inspect('places');
    expect(inLine.map(({ id }) => id)).toEqual(waiters.map(({ id }) => id));
    for (const one of [...waiters, holder!]) await store.release(one);
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
