/** The Redis store keeps the contract over node-redis as well, whichever package the other tests of this run use. */
import { afterAll, beforeAll } from '@jest/globals';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { openRedisStore, PATIENT } from '../support/redis-store.js';
import { connectBy } from '../support/test-client.js';
import { lockStoreContract } from './lock-store.contract.js';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

lockStoreContract({
  name: 'RedisStore over node-redis',
  open: (process) => openRedisStore(server.url, process, { ...PATIENT, connection: connectBy(server.url, 'redis') }),
  leftovers: async () => (await server.client().keys('{lock:*}:[lq]:*')).length,
});
