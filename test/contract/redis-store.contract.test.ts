/** The Redis store keeps the contract, on a server of its own. */
import { afterAll, beforeAll } from '@jest/globals';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { openRedisStore, PATIENT } from '../support/redis-store.js';
import { lockStoreContract } from './lock-store.contract.js';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

lockStoreContract({
  name: 'RedisStore',
  open: (process) => openRedisStore(server.url, process, PATIENT),
  leftovers: async () => (await server.client().keys('{lock:*}:[lq]:*')).length,
});
