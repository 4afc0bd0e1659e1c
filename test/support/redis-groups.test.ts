/** The clusters, Sentinels and broken networks that fault tests stand on. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startFlakyProxy, type FlakyProxy } from './flaky-proxy.js';
import { startCluster, type RedisCluster } from './redis-cluster.js';
import { DOWN_SOON_MS, startSentinel } from './redis-sentinel.js';
import { startRedis, type RedisServer } from './redis-server.js';
import { Redis } from 'ioredis';

describe('a cluster of a test', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startCluster({ masters: 3, replicasEach: 1 });
  });
  afterAll(() => cluster.stop());

  it('serves keys of every slot', async () => {
    const client = cluster.client();
    for (const key of ['a', 'b', 'c', 'd', 'e']) await client.set(key, key);
    expect(await Promise.all(['a', 'b', 'c', 'd', 'e'].map((key) => client.get(key)))).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  it('moves a slot from one master to another', async () => {
    const client = cluster.client();
    await client.set('{moving}', 1);
    const slot = await cluster.slotOf('{moving}');
    const from = await cluster.masterOf(slot);
    const to = cluster.masters.find((master) => master !== from)!;
    await cluster.beginMigration(slot, to);
    await cluster.finishMigration(slot, to);
    expect(await client.get('{moving}')).toBe('1');
    expect(await to.command('GET', '{moving}')).toBe('1');
  });
});

describe('a Sentinel group of a test', () => {
  it('gives its clients another master when the first is killed', async () => {
    const group = await startSentinel({ downAfterMs: DOWN_SOON_MS });
    try {
      const client = group.client({ maxRetriesPerRequest: null });
      await client.set('a', 1);
      await client.wait(1, 1_000);
      const first = await group.master();
      await first.kill();
      expect(await group.masterAfter(first)).not.toBe(first);
      expect(await client.get('a')).toBe('1');
    } finally {
      await group.stop();
    }
  });
});

describe('a flaky network', () => {
  let redis: RedisServer;
  let network: FlakyProxy;
  let client: Redis;
  beforeAll(async () => {
    redis = await startRedis();
    network = await startFlakyProxy(redis.port);
    client = new Redis({ port: network.port, host: '127.0.0.1', maxRetriesPerRequest: 0, enableOfflineQueue: true, retryStrategy: () => 10 });
    client.on('error', () => undefined);
  });
  afterAll(async () => {
    client.disconnect();
    await network.stop();
    await redis.stop();
  });
  const again = async (): Promise<string> => {
    for (;;) {
      const answer = await client.ping().catch(() => undefined);
      if (answer !== undefined) return answer;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };

  it('refuses while cut and serves when healed', async () => {
    await client.ping();
    await network.cut();
    await expect(client.ping()).rejects.toThrow();
    await network.heal();
    expect(await again()).toBe('PONG');
  });

  it('delivers requests whose replies it drops', async () => {
    network.dropReplies(true);
    const reply = client.incr('count').catch((error: unknown) => error);
    while ((await redis.command('GET', 'count')) !== '1');
    network.resetConnections();
    expect(await reply).toBeInstanceOf(Object);
    network.dropReplies(false);
    expect(await again()).toBe('PONG');
  });

  it('holds everything back while frozen', async () => {
    network.freeze();
    const reply = client.set('frozen', 1);
    expect(await redis.command('GET', 'frozen')).toBeNull();
    network.thaw();
    expect(await reply).toBe('OK');
  });

  it('delays what passes', async () => {
    network.delay(30);
    const since = performance.now();
    await client.ping();
    expect(performance.now() - since).toBeGreaterThanOrEqual(55);
    network.delay(0);
  });
});
