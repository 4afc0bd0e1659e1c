/** Endpoints that accept connections and close them at once, as a proxy without a backend does, or a server with too many clients. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { RedisTarget } from '../../../lib/stores/wire/redis-target.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { within } from '../../support/in-time.js';
import { startFlakyProxy, type FlakyProxy } from '../../support/flaky-proxy.js';
import { startCluster, type RedisCluster } from '../../support/redis-cluster.js';
import { startSentinel, type SentinelGroup } from '../../support/redis-sentinel.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';

const stops: (() => Promise<void>)[] = [];
let single: RedisServer;
let sentinel: SentinelGroup;
let cluster: RedisCluster;
beforeAll(async () => {
  single = await startRedis();
  sentinel = await startSentinel();
  cluster = await startCluster({ masters: 3, replicasEach: 0 });
  stops.push(() => single.stop(), () => sentinel.stop(), () => cluster.stop());
});
afterAll(async () => {
  for (const stop of stops) await stop();
});
let proxies: FlakyProxy[] = [];
afterEach(async () => {
  await closeStores();
  await Promise.all(proxies.map((proxy) => proxy.stop()));
  proxies = [];
});

async function inFrontOf(servers: readonly { port: number }[]): Promise<Record<string, { host: string; port: number }>> {
  const started = await Promise.all(servers.map(({ port }) => startFlakyProxy(port)));
  proxies.push(...started);
  return Object.fromEntries(servers.map(({ port }, n) => [`127.0.0.1:${port}`, { host: '127.0.0.1', port: started[n]!.port }]));
}

const kinds: readonly [string, () => Promise<RedisTarget>][] = [
  [
    'one Redis',
    async () => {
      await inFrontOf([single]);
      return proxies[0]!.url;
    },
  ],
  [
    'Sentinel',
    async () => {
      const natMap = await inFrontOf(sentinel.servers);
      return { ...sentinel.options, natMap };
    },
  ],
  [
    'Cluster',
    async () => {
      const natMap = await inFrontOf(cluster.masters);
      return { cluster: Object.values(natMap), options: { natMap } };
    },
  ],
];

describe.each(kinds)('%s that accepts connections and closes them at once', (_, target) => {
  it('serves again as soon as it answers, and tells again of what happens', async () => {
    const store = await openRedisStore(await target(), 'p');
    const told: string[] = [];
    store.onWake((wake) => wake.kind === 'contended' && told.push(wake.id));
    expect((await store.acquire(acquireRequest())).kind).toBe('granted');
    const before = accepted();
    for (const proxy of proxies) proxy.hangUp();
    // Who waits for a Cluster connects to a node when it asks it something.
    await eventually(async () => {
      await expect(store.acquire(acquireRequest())).rejects.toMatchObject({ code: 'LOCK_STORE' });
      expect(accepted()).toBeGreaterThan(before + 2);
    });
    for (const proxy of proxies) proxy.pickUp();
    const held = acquireRequest();
    await within(2_000, () => eventually(async () => expect((await store.acquire(held)).kind).toBe('granted')));
    // The first in a queue is what a holder is told of; a message may be lost as long as the subscriber is away.
    await eventually(async () => {
      const waiter = acquireRequest({ key: held.key });
      await store.acquire(waiter);
      await store.release(waiter);
      expect(told).toContain(held.id);
    });
  });

  it('does not fail a boot that it leaves time enough', async () => {
    const given = await target();
    for (const proxy of proxies) proxy.hangUp();
    const opening = openRedisStore(given, 'p');
    await eventually(() => expect(accepted()).toBeGreaterThan(2));
    for (const proxy of proxies) proxy.pickUp();
    const store = await opening;
    expect((await store.acquire(acquireRequest())).kind).toBe('granted');
  });
});

function accepted(): number {
  return proxies.reduce((sum, proxy) => sum + proxy.accepted, 0);
}
