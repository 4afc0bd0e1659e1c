/** The Redis store keeps the contract on a master that Sentinel names. */
import {  } from '@jest/globals';
import { startSentinel } from '../support/redis-sentinel.js';
import { openRedisStore, PATIENT } from '../support/redis-store.js';
import { lockStoreContract } from './lock-store.contract.js';
import { forAll } from '../support/started.js';

const group = forAll(startSentinel);

lockStoreContract({
  name: 'RedisStore under Sentinel',
  open: (process) => openRedisStore(group.options, process, PATIENT),
  leftovers: async () => ((await (await group.master()).command('KEYS', '{lock:*}:[lq]:*')) as string[]).length,
});
