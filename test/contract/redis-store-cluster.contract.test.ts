/** The Redis store keeps the contract on a Cluster of three masters. */
import {  } from '@jest/globals';
import { startCluster } from '../support/redis-cluster.js';
import { openRedisStore, PATIENT } from '../support/redis-store.js';
import { lockStoreContract } from './lock-store.contract.js';
import { forAll } from '../support/started.js';

const cluster = forAll(startCluster);

lockStoreContract({
  name: 'RedisStore on a Cluster',
  open: (process) => openRedisStore({ cluster: cluster.startupNodes }, process, PATIENT),
  leftovers: async () => {
    const found = await Promise.all(cluster.masters.map((node) => node.command('KEYS', '{lock:*}:[lq]:*') as Promise<string[]>));
    return found.flat().length;
  },
});
