/** Redis away when an application boots, and while it holds a lock: seen from processes of their own. */
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { Crew, type CrewMember } from './crew/crew.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { startWorker, type Worker } from '../support/worker.js';

describe('A process whose Redis is away', () => {
  const crew = new Crew();
  let workers: Worker[] = [];

  afterAll(() => crew.dismiss());
  const redis = forAll(startRedis);

  afterEach(async () => {
    await Promise.all(workers.map((worker) => worker.kill()));
    workers = [];
  });

  async function start(): Promise<Worker> {
    const worker = await startWorker({ redis: redis.url, commandTimeoutMs: 1_000 });
    workers.push(worker);
    return worker;
  }

  async function bootFailure(): Promise<Awaited<ReturnType<CrewMember['open']>>> {
    const [member] = (await crew.take(1)) as [CrewMember];
    const failure = await member.open({ redis: redis.url, bootTimeoutMs: 700 }, { name: 'boot/p0', resourceUrl: redis.url });
    expect(await member.dismiss()).toBe(0);
    return failure;
  }

  it('fails to boot within bootTimeoutMs, says why, and ends by itself', async () => {
    await redis.kill();
    const failure = await bootFailure();
    await redis.start();
    expect(failure).toMatchObject({ code: 'LOCK_STORE', message: expect.stringMatching(new RegExp(`127.0.0.1:${redis.port}.*700 ms`)) });
    expect(failure?.afterMs).toBeLessThan(700 + 800);
  });

  it('fails to boot on a server that accepts connections and says nothing', async () => {
    await redis.pause();
    const failure = await bootFailure();
    await redis.resume();
    expect(failure).toMatchObject({ code: 'LOCK_STORE' });
    expect(failure?.afterMs).toBeLessThan(700 + 800);
  });

  it('hears of a stop in mid-hold, is refused within waitMs, is served again, and ends by itself though Redis is down', async () => {
    const [holder, other] = await Promise.all([start(), start()]);
    const lease = await holder.hold('k', { leaseMs: 600 });
    await redis.kill();
    const since = performance.now();
    await expect(other.hold('k', { waitMs: 500 })).rejects.toMatchObject({ code: 'LOCK_STORE', message: expect.stringContaining('500 ms') });
    expect(performance.now() - since).toBeLessThan(1_500);
    await expect(other.hold('k', { waitMs: 900 })).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect(await lease.look()).toEqual({ held: false, aborted: true, remainingMs: 0 });
    expect(await lease.release()).toBe('lost');
    await redis.restart({ keepData: false });
    const again = await other.hold('k', { waitMs: 2_000 });
    expect(again.fence).toBeGreaterThan(lease.fence);
    expect(await again.release()).toBe('released');
    await redis.kill();
    expect(await Promise.all([holder.close(), other.close()])).toEqual([0, 0]);
    expect(holder.errors + other.errors).toBe('');
    await redis.start();
  });
});
