/** The Redis store keeps the contract over node-redis as well, whichever package the other tests of this run use. */
import {  } from '@jest/globals';
import { startRedis } from '../support/redis-server.js';
import { openRedisStore, PATIENT } from '../support/redis-store.js';
import { connectBy } from '../support/test-client.js';
import { lockStoreContract } from './lock-store.contract.js';
import { forAll } from '../support/started.js';

const server = forAll(startRedis);

lockStoreContract({
  name: 'RedisStore over node-redis',
  open: (process) => openRedisStore(server.url, process, { ...PATIENT, connection: connectBy(server.url, 'redis') }),
  leftovers: async () => (await server.client().keys('{lock:*}:[lq]:*')).length,
});
