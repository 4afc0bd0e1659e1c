import { afterEach, describe, expect, it } from '@jest/globals';
import type { LockModuleOptions } from '../../lib/nest/lock-module-options.js';
import { startRedis } from '../support/redis-server.js';
import { eventually } from '../support/eventually.js';
import { forAll } from '../support/started.js';
import { startWorker, type Worker } from '../support/worker.js';

describe('Processes on one Redis', () => {
  const workers: Worker[] = [];

  const redis = forAll(startRedis);

  afterEach(async () => {
    await Promise.all(workers.splice(0).map((worker) => worker.kill()));
    await redis.command('FLUSHALL');
  });

  async function start(options: LockModuleOptions = {}): Promise<Worker> {
    const worker = await startWorker({ redis: redis.url, ...options });
    workers.push(worker);
    return worker;
  }

  it('that read, change and write a counter under @Locked lose no update', async () => {
    const fleet = await Promise.all([start(), start()]);
    await Promise.all(fleet.map((worker) => worker.increments('visits', 200, redis.url)));
    const counter = redis.client();
    expect(await counter.get('visits')).toBe('400');
    expect((await counter.keys('lock*')).filter((key) => !/:f$|:format$/.test(key))).toEqual([]);
  });

  it('that move money between two accounts in both directions neither deadlock nor lose any', async () => {
    const accounts = redis.client();
    await accounts.mset('a', 500, 'b', 500);
    const [one, two] = await Promise.all([start(), start()]);
    await Promise.all([one.transfers('a', 'b', 200, redis.url), two.transfers('b', 'a', 200, redis.url)]);
    expect(await accounts.mget('a', 'b')).toEqual(['500', '500']);
  });

  it('leave a lock free within one lease when they are killed', async () => {
    const [holder, other] = await Promise.all([start(), start()]);
    const leaseMs = 1_500;
    const old = await holder.hold('k', { leaseMs });
    const killedAt = performance.now();
    await holder.kill();
    const lease = await other.hold('k');
    expect(performance.now() - killedAt).toBeLessThan(leaseMs + 500);
    expect(lease.fence).toBeGreaterThan(old.fence);
  });

  it('that were stopped for two leases find out at once that they hold nothing any more', async () => {
    const [holder, other] = await Promise.all([start(), start()]);
    const old = await holder.hold('k', { leaseMs: 500 });
    holder.pause();
    const lease = await other.hold('k', { leaseMs: 500 });
    await eventually(async () => expect((await lease.look()).remainingMs).toBeGreaterThan(0));
    holder.resume();
    expect(await old.look()).toEqual({ held: false, aborted: true, remainingMs: 0 });
    expect(await old.release()).toBe('lost');
    expect(lease.fence).toBeGreaterThan(old.fence);
    expect(await lease.look()).toMatchObject({ held: true, aborted: false });
    expect(await lease.release()).toBe('released');
  });

  it('exit by themselves after close, and after SIGTERM with code 0 once their holders are done', async () => {
    const [idle, busy] = await Promise.all([start(), start({ shutdownGraceMs: 5_000 })]);
    expect(await idle.close()).toBe(0);
    const lease = await busy.hold('k', { leaseMs: 600 });
    busy.terminate();
    const refused = eventually(() => expect(busy.hold('other')).rejects.toMatchObject({ code: 'LOCK_CLOSED' }));
    await refused;
    expect(await lease.look()).toMatchObject({ held: true });
    expect(await lease.release()).toBe('released');
    expect(await busy.exited).toEqual({ code: 0, signal: null });
    expect(busy.errors).toBe('');
  });

  it('hear of an outage in mid-hold, are refused within waitMs, are served again, and end by themselves though Redis is down', async () => {
    const [holder, other] = await Promise.all([start({ commandTimeoutMs: 1_000 }), start({ commandTimeoutMs: 1_000 })]);
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
