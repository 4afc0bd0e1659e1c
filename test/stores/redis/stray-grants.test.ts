/** A store whose memory is older than its clients': what it grants to those who have gone is given back. */
import { afterAll, describe, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { eventually } from '../../support/eventually.js';
import { within } from '../../support/in-time.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, makeRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';

describe('A queue that came back from the past', () => {

  afterAll(() => closeStores());
  const redis = forAll(startRedis);

  async function process(name: string): Promise<LockService> {
    const locks = new LockService({ store: makeRedisStore(redis.url, name), process: name });
    await locks.open();
    return locks;
  }

  it('does not keep live waiters for the leases of those who were served before', async () => {
    const [holder, served, waiter] = await Promise.all([process('p1'), process('p2'), process('p3')]);
    const key = 'an order, 1';
    const lease = await holder.acquire(key);
    const waiting = served.acquire(key);
    await eventually(async () => expect((await holder.inspect(key)).waiters).toHaveLength(1));
    const client = redis.client();
    const past = await Promise.all((await client.keys('*:[lq]:*')).map(async (redisKey) => [redisKey, await client.dumpBuffer(redisKey)] as const));
    await lease.release();
    await (await waiting).release();
    for (const [redisKey, dump] of past) await client.restore(redisKey, 5_000, dump, 'REPLACE');
    // The holder of the past has gone too; an operator's release lets the next one in, who has gone as well.
    await within(1_000, async () => {
      const next = waiter.acquire(key);
      await eventually(async () => expect((await holder.inspect(key)).waiters).toHaveLength(2));
      await holder.forceRelease(key);
      await (await next).release();
    });
    expect(await client.keys('*:[lq]:*')).toEqual([]);
    await Promise.all([holder.close(), served.close(), waiter.close()]);
  });
});
