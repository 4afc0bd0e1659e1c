/** The Redis store under Sentinel: masters that move away, die or freeze, and replicas that are counted. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import { CONNECTION_NAME } from '../../../lib/stores/wire/server-connection.js';
import type { ClientPackage } from '../../../lib/stores/wire/redis-target.js';
import { LockService } from '../../../lib/lock.service.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { DOWN_SOON_MS, startSentinel } from '../../support/redis-sentinel.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { connectBy } from '../../support/test-client.js';
import { broughtBack, storeEvents } from '../../support/store-events.js';
import { forEachTest } from '../../support/started.js';

const group = forEachTest(() => startSentinel({ downAfterMs: DOWN_SOON_MS }), closeStores);
beforeEach(async () => {
  // A replica that was just attached counts only after its first word.
  const master = (await group.master()).client();
  await eventually(async () => {
    await master.set('warm', 'up');
    expect(await master.wait(1, 200)).toBe(1);
  });
});

function request(how: Partial<AcquireRequest> = {}): AcquireRequest {
  return acquireRequest({ leaseMs: 20_000, ...how });
}

describe('a failover', () => {
  it('that keeps the data keeps the lease, and service resumes within 2 s of the promotion', async () => {
    const store = await openRedisStore(group.options, 'p', { commandTimeoutMs: 500 });
    const held = request({ minReplicas: 1 });
    await store.acquire(held);
    await group.failover();
    const promotedAt = performance.now();
    await eventually(async () => expect(await store.renew({ ...held, minReplicas: 0 })).toMatchObject({ kind: 'renewed' }));
    expect(performance.now() - promotedAt).toBeLessThan(2_000);
    await eventually(async () => expect(await store.release(held)).toBe('released'));
  });

  it('that loses a grant is told as events of the store, with how many leases its holder brought back', async () => {
    const store = await openRedisStore(group.options, 'p', { commandTimeoutMs: 500, recoveryMs: 1_000 });
    const locks = new LockService({ store, process: 'p', leaseMs: 30_000, waitMs: 20_000, shutdownGraceMs: 0 });
    // A first boot waits as well: here that is over.
    await (await locks.acquire('warm')).release();
    const told = storeEvents(locks);
    const master = await group.master();
    const [replica] = group.servers.filter((server) => server !== master);
    await replica!.pause();
    await master.command('CLIENT', 'KILL', 'TYPE', 'replica');
    const lease = await locks.acquire('k');
    await master.kill();
    await replica!.resume();
    await group.masterAfter(master);
    await eventually(() => expect(told.map(({ type }) => type)).toEqual(['storeForgot', 'storeRecovered']), 20_000);
    expect(told[0]).toMatchObject({ reason: 'restarted-or-replaced', forMs: expect.any(Number) });
    expect(broughtBack(told)).toBe(1);
    expect(lease.signal.aborted).toBe(false);
    expect(await lease.release()).toBe('released');
    await locks.close();
  });

  it('is followed though the Sentinel that is asked first is frozen', async () => {
    const several = await startSentinel({ sentinels: 3, quorum: 2, downAfterMs: DOWN_SOON_MS });
    // The group itself asks its first one.
    const last = several.sentinels.at(-1)!;
    const sentinels = [...several.options.sentinels!].reverse();
    const store = await openRedisStore({ ...several.options, sentinels }, 'p', { commandTimeoutMs: 500 });
    const master = await several.master();
    await last.pause();
    await master.kill();
    await several.masterAfter(master);
    const ask = request();
    await eventually(async () => expect((await store.acquire({ ...ask, notAfter: performance.now() + 500 })).kind).toBe('granted'));
    await several.stop();
  });

  it.each<ClientPackage>(['ioredis', 'redis'])('away from a frozen master is followed by a process that asked nothing meanwhile, by %s', async (client) => {
    const store = await openRedisStore(group.options, 'p', { connection: connectBy(group.options, client) });
    const before = request();
    await store.acquire(before);
    await store.release(before);
    // A Sentinel that hung up is listened to again.
    const [sentinel] = group.sentinels;
    const listens = async (): Promise<boolean> => / name=nestjs-holdfast .* sub=2 /.test(String(await sentinel!.command('CLIENT', 'LIST', 'TYPE', 'pubsub')));
    await eventually(async () => expect(await listens()).toBe(true));
    await sentinel!.command('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await eventually(async () => expect(await listens()).toBe(true), 30_000);
    const former = await group.master();
    await former.pause();
    const present = await group.masterAfter(former);
    await eventually(async () => expect(await present.command('CLIENT', 'LIST')).toContain(CONNECTION_NAME));
    // It takes itself for the master until Sentinel has made a replica of it.
    await former.resume();
    const ask = request();
    expect((await store.acquire(ask)).kind).toBe('granted');
    expect(await present.command('KEYS', `*:l:${ask.key}`)).toHaveLength(1);
  });
});

describe('minReplicas', () => {
  it('is met by a grant that the replicas have, and refused where too few answer, until the request asks again or is released', async () => {
    const store = await openRedisStore(group.options, 'p', { commandTimeoutMs: 600 });
    const ask = request({ minReplicas: 1 });
    expect((await store.acquire(ask)).kind).toBe('granted');
    expect(await store.renew(ask)).toMatchObject({ kind: 'renewed' });
    const tooMany = request({ minReplicas: 2 });
    await expect(store.acquire(tooMany)).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true, key: tooMany.key });
    expect((await store.acquire({ ...tooMany, minReplicas: 1 })).kind).toBe('granted');
    expect(await store.release(tooMany)).toBe('released');
    expect((await store.inspect(tooMany.key)).mode).toBeNull();
    expect(await store.renew({ ...ask, minReplicas: 2 })).toMatchObject({ kind: 'unknown', cause: { code: 'LOCK_STORE' } });
    expect(await store.release(ask)).toBe('released');
  });

  it('holds nobody else up while it waits', async () => {
    const store = await openRedisStore(group.options, 'p', { commandTimeoutMs: 6_000 });
    await store.acquire(request({ minReplicas: 1 }));
    const ended: string[] = [];
    const waiting = store.acquire(request({ minReplicas: 5 })).catch(() => ended.push('who waits'));
    for (let i = 0; i < 20; i++) {
      const ask = request();
      await store.acquire(ask);
      await store.release(ask);
    }
    ended.push('the others');
    await waiting;
    expect(ended).toEqual(['the others', 'who waits']);
  });

  it('is asked of the replicas for many grants at once', async () => {
    const store = await openRedisStore(group.options, 'p');
    const master = await group.master();
    await store.acquire(request({ minReplicas: 1 }));
    await master.command('CONFIG', 'RESETSTAT');
    const asks = Array.from({ length: 50 }, () => request({ minReplicas: 1 }));
    const outcomes = await Promise.all(asks.map((ask) => store.acquire(ask)));
    expect(outcomes.every(({ kind }) => kind === 'granted')).toBe(true);
    const [, waits] = /cmdstat_wait:calls=(\d+)/.exec(String(await master.command('INFO', 'commandstats')))!;
    expect(Number(waits)).toBeLessThanOrEqual(3);
    expect(await Promise.all(asks.map((each) => store.renew(each)))).toEqual(asks.map(() => expect.objectContaining({ kind: 'renewed' })));
  });

  it('makes of a pushed grant a question, so that it is confirmed before it counts', async () => {
    const store = await openRedisStore(group.options, 'p');
    const wakes: unknown[] = [];
    store.onWake((wake) => wakes.push(wake));
    const held = request();
    await store.acquire(held);
    const ask = request({ key: held.key, minReplicas: 1 });
    expect((await store.acquire(ask)).kind).toBe('waiting');
    await store.release(held);
    await eventually(() => expect(wakes).toContainEqual({ kind: 'ask', key: ask.key, id: ask.id }));
    expect((await store.acquire(ask)).kind).toBe('granted');
    expect(await store.release(ask)).toBe('released');
  });
});
