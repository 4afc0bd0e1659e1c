/** `awaitRelease: false` on real servers, by both clients: a release was sent when its call is over. */
import { afterAll, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { ReleaseRequest } from '../../../lib/core/port/lock-store.js';
import { LockService } from '../../../lib/lock.service.js';
import type { LockModuleOptions } from '../../../lib/nest/lock-module-options.js';
import type { ClientPackage } from '../../../lib/stores/wire/redis-target.js';
import { eventually } from '../../support/eventually.js';
import { startCluster } from '../../support/redis-cluster.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { connectBy } from '../../support/test-client.js';
import { startWorker } from '../../support/worker.js';
import { forAll } from '../../support/started.js';
import { startVoters } from '../../support/redlock-store.js';

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
