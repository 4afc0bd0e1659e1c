/** The Redis store keeps the contract, on a server of its own. */
import {  } from '@jest/globals';
import { startRedis } from '../support/redis-server.js';
import { openRedisStore, PATIENT } from '../support/redis-store.js';
import { lockStoreContract } from './lock-store.contract.js';
import { forAll } from '../support/started.js';

const server = forAll(startRedis);

lockStoreContract({
  name: 'RedisStore',
  open: (process) => openRedisStore(server.url, process, PATIENT),
  leftovers: async () => (await server.client().keys('{lock:*}:[lq]:*')).length,
});
