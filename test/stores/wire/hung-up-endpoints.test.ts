/** Endpoints that accept connections and close them at once, as a proxy without a backend does, or a server with too many clients. */
import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import { RedlockStore } from '../../../lib/stores/redlock/redlock-store.js';
import type { ClientPackage, RedisTarget } from '../../../lib/stores/wire/redis-target.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { type FlakyProxy, startFlakyProxy } from '../../support/flaky-proxy.js';
import { within } from '../../support/in-time.js';
import { type RedisCluster, startCluster } from '../../support/redis-cluster.js';
import { type SentinelGroup, startSentinel } from '../../support/redis-sentinel.js';
import { type RedisServer, startRedis } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { admitAll } from '../../support/redlock-store.js';
import { forAll } from '../../support/started.js';
import { USUAL_OPTIONS } from '../../support/store-options.js';
import { connectBy } from '../../support/test-client.js';

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

const accepted = (): number => proxies.reduce((sum, proxy) => sum + proxy.accepted, 0);

/** How many connections a process makes, for each topology and client, as the servers count them. The table stands in docs/production.md. */
const LOGIN = { username: 'locks', password: 'secret' };

const SENTINEL_LOGIN = { sentinelUsername: LOGIN.username, sentinelPassword: LOGIN.password };

interface Place {
  readonly servers: readonly RedisServer[];
  readonly targets: readonly RedisTarget[];
  stop(): Promise<unknown>;
}

/** The first column of the table, and where that is. */
const PLACES: readonly [string, () => Promise<Place>][] = [
  ['one Redis', async () => {
    const server = await startRedis();
    return { servers: [server], targets: [{ host: '127.0.0.1', port: server.port, ...LOGIN }], stop: () => server.stop() };
  }],
  ['Sentinel', async () => {
    const group = await startSentinel({ replicas: 1, sentinels: 1 });
    return { servers: [...group.servers, ...group.sentinels], targets: [{ ...(group.options as object), ...LOGIN, ...SENTINEL_LOGIN }], stop: () => group.stop() };
  }],
  ['a Cluster of 3 masters', async () => {
    const cluster = await startCluster();
    return { servers: cluster.masters, targets: [{ cluster: cluster.startupNodes, options: { redisOptions: LOGIN } }], stop: () => cluster.stop() };
  }],
  ['a Redlock of 3', async () => {
    const servers = await Promise.all([1, 2, 3].map(() => startRedis()));
    await admitAll(servers);
    return { servers, targets: servers.map(({ port }) => ({ host: '127.0.0.1', port, ...LOGIN })), stop: () => Promise.all(servers.map((server) => server.stop())) };
  }],
];

/** The rows of the table on the page: the place, and the connections by ioredis and by node-redis. */
const TABLE = [...readFileSync('docs/production.md', 'utf8').matchAll(/^\| ([^|]+) \| (\d+) \| (\d+) \|$/gm)].map(([, place, ioredis, redis]) => ({ place, ioredis: Number(ioredis), redis: Number(redis) }));

async function connectionsTo(servers: readonly RedisServer[]): Promise<number> {
  const lists = await Promise.all(servers.map((server) => server.command('CLIENT', 'LIST')));
  return lists.flatMap((list) => String(list).trim().split('\n')).filter((line) => / user=locks\b/.test(line)).length;
}

describe.each(PLACES)('A process with locks on %s', (name, start) => {
  let locks: LockService | undefined;
  const place = forAll(start);
  beforeAll(async () => {
    for (const server of place.servers) await server.command('ACL', 'SETUSER', 'locks', 'on', `>${LOGIN.password}`, '~*', '&*', '+@all');
  }, 90_000);
  afterEach(() => locks?.close());

  it.each<ClientPackage>(['ioredis', 'redis'])('has as many connections as the page says, by %s, and none when it has closed', async (client) => {
    const options = { ...USUAL_OPTIONS, recoveryMs: 0, process: 'p' };
    const connections = place.targets.map((target) => connectBy(target, client));
    const store = connections.length === 1 ? new RedisStore({ ...options, connection: connections[0]! }) : new RedlockStore({ ...options, nodes: connections });
    locks = new LockService({ store, process: 'p' });
    await locks.open();
    for (let n = 0; n < 30; n++) await locks.withLock(`k${n}`, async (lease) => lease.assertHeld());
    const said = TABLE.find((row) => row.place === name)?.[client];
    await eventually(async () => expect(await connectionsTo(place.servers)).toBe(said), 10_000);
    await locks.close();
    await eventually(async () => expect(await connectionsTo(place.servers)).toBe(0), 10_000);
  }, 60_000);
});
