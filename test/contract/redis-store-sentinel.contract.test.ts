/** The Redis store keeps the contract on a master that Sentinel names. */
import { afterAll, beforeAll } from '@jest/globals';
import { startSentinel, type SentinelGroup } from '../support/redis-sentinel.js';
import { openRedisStore, PATIENT } from '../support/redis-store.js';
import { lockStoreContract } from './lock-store.contract.js';

let group: SentinelGroup;
beforeAll(async () => {
  group = await startSentinel();
});
afterAll(() => group.stop());

lockStoreContract({
  name: 'RedisStore under Sentinel',
  open: (process) => openRedisStore(group.options, process, PATIENT),
  leftovers: async () => ((await (await group.master()).command('KEYS', '{lock:*}:[lq]:*')) as string[]).length,
});
