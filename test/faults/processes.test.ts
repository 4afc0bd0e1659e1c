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

  it('keep a lock for five times its lease while they work', async () => {
    const [holder, other] = await Promise.all([start(), start()]);
    const lease = await holder.hold('k', { leaseMs: 400 });
    await expect(other.hold('k', { waitMs: 5 * 400 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    expect(await lease.look()).toMatchObject({ held: true, aborted: false });
    expect(await lease.verify()).toBe(true);
    expect(await lease.release()).toBe('released');
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

  it('that wait are not kept by waiters whose processes were killed', async () => {
    const holder = await start();
    const lease = await holder.hold('k');
    const dead = await Promise.all([start(), start(), start()]);
    for (const [n, worker] of dead.entries()) {
      for (let place = 0; place < 5; place++) void worker.hold('k', { waitMs: 60_000, leaseMs: 10_000 + n * 10 + place }).catch(() => {});
    }
    await eventually(async () => expect((await holder.inspect('k')).waiters).toHaveLength(dead.length));
    const live = holder.hold('k', { waitMs: 60_000, mode: 'write', leaseMs: 9_000 });
    await Promise.all(dead.map((worker) => worker.kill()));
    const since = performance.now();
    await lease.release();
    const next = await live;
    expect(performance.now() - since).toBeLessThan(5_000);
    await next.release();
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
});
