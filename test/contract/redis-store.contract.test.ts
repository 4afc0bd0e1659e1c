/** The Redis store keeps the contract: over each package of clients, whichever the other tests of this run use, under Sentinel and on a Cluster. */
import { describe } from '@jest/globals';
import { startCluster } from '../support/redis-cluster.js';
import { startSentinel } from '../support/redis-sentinel.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { openRedisStore, PATIENT } from '../support/redis-store.js';
import { forAll } from '../support/started.js';
import { connectBy, TEST_CLIENT } from '../support/test-client.js';
import { lockStoreContract } from './lock-store.contract.js';

/** How many Redis keys of locks are left on these servers. */
async function leftOn(servers: readonly RedisServer[]): Promise<number> {
  return (await Promise.all(servers.map((server) => server.command('KEYS', '{lock:*}:[lq]:*') as Promise<string[]>))).flat().length;
}

describe.each([...new Set([TEST_CLIENT, 'redis'] as const)])('Over %s', (client) => {
  const server = forAll(startRedis);

  lockStoreContract({
    name: 'RedisStore',
    open: (process) => openRedisStore(server.url, process, { ...PATIENT, connection: connectBy(server.url, client) }),
    leftovers: () => leftOn([server]),
  });
});

describe('On a master that Sentinel names', () => {
  const group = forAll(startSentinel);

  lockStoreContract({
    name: 'RedisStore',
    open: (process) => openRedisStore(group.options, process, PATIENT),
    leftovers: async () => leftOn([await group.master()]),
  });
});

describe('On a Cluster of three masters', () => {
  const cluster = forAll(startCluster);

  lockStoreContract({
    name: 'RedisStore',
    open: (process) => openRedisStore({ cluster: cluster.startupNodes }, process, PATIENT),
    leftovers: () => leftOn(cluster.masters),
  });
});
