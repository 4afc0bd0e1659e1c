/** A server that forgets what is held by a process that cannot say so in time: who waited for a lock, or was refused it, is not let in. */
import { describe, expect, it } from '@jest/globals';
import type { LockService } from '../../../lib/lock.service.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { startFlakyProxy } from '../../support/flaky-proxy.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, openLocks as openLocksOn } from '../../support/redis-store.js';
import { forEachTest } from '../../support/started.js';
import { eventually } from '../../support/eventually.js';

const RECOVERY_MS = 100;
const keys = new RedisKeys('any');
/** A lock of the same slot group as 'k'. */
const LIKE_K = Array.from({ length: 10_000 }, (_, n) => `k${n}`).find((key) => keys.groupOf(key) === keys.groupOf('k'))!;

const server = forEachTest(startRedis, closeStores);
const proxy = forEachTest(() => startFlakyProxy(server.port), closeStores);

const openLocks = (process: string, url: string): Promise<LockService> => openLocksOn(url, process, { recoveryMs: RECOVERY_MS }, { leaseMs: 20_000 });

describe('A lock whose holder cannot reach the server that forgot it', () => {
  it('is granted to nobody who waited for it or was refused it, and stays that of its holder, who brings it back long after the recovery', async () => {
    const [holder, waiter, refused, stranger] = [await openLocks('holder', proxy.url), await openLocks('waiter', server.url), await openLocks('refused', server.url), await openLocks('new', server.url)];
    const lease = await holder.acquire('k');
    let granted = 0;
    const waited = waiter.acquire('k');
    void waited.then(() => (granted += 1));
    await eventually(async () => expect((await waiter.inspect('k')).waiters).toHaveLength(1));
    expect(await refused.tryAcquire('k')).toBeNull();
    await proxy.cut();
    await server.command('FLUSHALL');
    // The recovery is over when the server grants another lock of this slot group to somebody new.
    await eventually(async () => expect((await waiter.inspect('k')).waiters).toHaveLength(1), 10_000);
    await eventually(async () => void (await stranger.acquire('another', { waitMs: 0 })), 10_000);
    await eventually(async () => expect(await refused.tryAcquire('k')).toBeNull(), 10_000);
    expect(granted).toBe(0);
    await proxy.heal();
    await eventually(async () => expect((await waiter.inspect('k')).holders).toMatchObject([{ fence: lease.fence }]), 20_000);
    lease.assertHeld();
    expect([granted, await lease.release()]).toEqual([0, 'released']);
    expect((await waited).fence).toBeGreaterThan(lease.fence);
  }, 60_000);

  it('is granted to nobody who was refused it before and asks again only when the recovery is over', async () => {
    const [holder, refused] = [await openLocks('holder', proxy.url), await openLocks('refused', server.url)];
    const lease = await holder.acquire('k');
    expect(await refused.tryAcquire('k')).toBeNull();
    await proxy.cut();
    await server.command('FLUSHALL');
    // It knows the new memory of the slot group when it was granted another lock of it.
    await eventually(async () => void (await (await refused.acquire(LIKE_K, { waitMs: 0 })).release()), 10_000);
    expect(await refused.tryAcquire('k')).toBeNull();
    await proxy.heal();
    await eventually(async () => expect((await refused.inspect('k')).holders).toMatchObject([{ fence: lease.fence }]), 20_000);
    lease.assertHeld();
    expect(await lease.release()).toBe('released');
    await (await refused.acquire('k', { waitMs: 0 })).release();
  }, 60_000);
});
