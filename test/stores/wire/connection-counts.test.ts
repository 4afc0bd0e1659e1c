/** How many connections a process makes, for each topology and client, as the servers count them. The table stands in docs/production.md. */
import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import { RedlockStore } from '../../../lib/stores/redlock/redlock-store.js';
import type { ClientPackage, RedisTarget } from '../../../lib/stores/wire/redis-target.js';
import { eventually } from '../../support/eventually.js';
import { startCluster } from '../../support/redis-cluster.js';
import { startSentinel } from '../../support/redis-sentinel.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { admitAll } from '../../support/redlock-store.js';
import { USUAL_OPTIONS } from '../../support/store-options.js';
import { connectBy } from '../../support/test-client.js';

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
  let place: Place;
  let locks: LockService | undefined;
  beforeAll(async () => {
    place = await start();
    for (const server of place.servers) await server.command('ACL', 'SETUSER', 'locks', 'on', `>${LOGIN.password}`, '~*', '&*', '+@all');
  }, 90_000);
  afterEach(() => locks?.close());
  afterAll(() => place.stop());

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
