/** Clients of an application that get replies in the shapes of RESP 3: the private connections that are made like them get the usual ones. */
import { describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { LockService } from '../../../lib/lock.service.js';
import type { RedisTarget } from '../../../lib/stores/wire/redis-target.js';
import { byIoredis } from '../../../lib/stores/wire/ioredis.js';
import { startCluster } from '../../support/redis-cluster.js';
import { startRedis } from '../../support/redis-server.js';
import { makeRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';

const shape = { protocol: 3, replyMapping: 'resp3' } as const;

const server = forAll(startRedis);
const cluster = forAll(startCluster);

const targets: readonly (readonly [string, () => RedisTarget])[] = [
  ['options', () => ({ host: '127.0.0.1', port: server.port, ...shape })],
  ['options of a Cluster', () => ({ cluster: cluster.startupNodes, options: { redisOptions: shape } })],
  ['a client', () => new Redis({ host: '127.0.0.1', port: server.port, lazyConnect: true, ...shape }) as unknown as RedisTarget],
  ['a Cluster client', () => new Cluster(cluster.startupNodes, { lazyConnect: true, redisOptions: shape })],
];

describe.each(targets)("ioredis' replyMapping resp3 in %s", (_, target) => {
  it('does not keep a process from booting, from getting a lock, and from being woken for the next', async () => {
    const open = async (process: string): Promise<LockService> => {
      const store = makeRedisStore('', process, { connection: byIoredis(target(), { Redis }) });
      const locks = new LockService({ store, process });
      await locks.open();
      return locks;
    };
    const [a, b] = [await open('a'), await open('b')];
    const held = await a.acquire('k');
    const next = b.acquire('k');
    await new Promise((resolve) => setTimeout(resolve, 50));
    await held.release();
    expect((await next).fence).toBeGreaterThan(held.fence);
    await (await next).release();
    await Promise.all([a.close(), b.close()]);
  });
});
