/** The scripts answer like the lock machine, act by act, on random runs against a real server. */
import { afterAll, expect, it } from '@jest/globals';
import { systemClock } from '../../lib/core/port/clock.js';
import type { Wake } from '../../lib/core/port/lock-store.js';
import type { RedisStore } from '../../lib/stores/redis/redis-store.js';
import { startRedis } from '../support/redis-server.js';
import { closeStores, openRedisStore } from '../support/redis-store.js';
import { answersLikeTheMachine } from './side-by-side.js';
import { forAll } from '../support/started.js';

afterAll(() => closeStores());
const server = forAll(startRedis);

it('the scripts answer like the lock machine', async () => {
  const wakes: Wake[] = [];
  const stores: [RedisStore, RedisStore] = [await openRedisStore(server.url, 'a'), await openRedisStore(server.url, 'b')];
  for (const store of stores) store.onWake((wake) => wakes.push(wake));
  await expect(answersLikeTheMachine({ open: () => ({ stores, wakes, clock: systemClock }), numRuns: 200, mostActs: 25 })).resolves.toBeUndefined();
});
