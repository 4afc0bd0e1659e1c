/** Waiters that died, and waiters that are deaf for a moment, on one Redis: the whole library in each of many processes. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { eventually } from '../../support/eventually.js';
import { within } from '../../support/in-time.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, makeRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';
import { startWorker, type Worker } from '../../support/worker.js';

const workers: Worker[] = [];

const redis = forAll(startRedis);
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.kill()));
  await closeStores();
  await redis.command('FLUSHALL');
});

async function process(name: string): Promise<LockService> {
  const locks = new LockService({ store: makeRedisStore(redis.url, name), process: name });
  await locks.open();
  return locks;
}

describe('On one Redis', () => {
  it('the next live waiter is served within 200 ms of the release when the processes of ten waiters before it were killed', async () => {
    const key = 'order:1';
    const [holder, live] = await Promise.all([process('holder'), process('live')]);
    const lease = await holder.acquire(key);
    for (let n = 0; n < 10; n++) workers.push(await startWorker({ redis: redis.url }));
    for (const worker of workers) worker.hold(key, { waitMs: 60_000 }).catch(() => {});
    await eventually(async () => expect((await holder.inspect(key)).waiters).toHaveLength(10));
    const next = live.acquire(key);
    await eventually(async () => expect((await holder.inspect(key)).waiters).toHaveLength(11));
    await Promise.all(workers.map((worker) => worker.kill()));
    const served = await within(200, async () => {
      await lease.release();
      return next;
    });
    await served.release();
    await Promise.all([holder.close(), live.close()]);
  });
});
