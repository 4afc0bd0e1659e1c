/** Leases that replicas must acknowledge, on real replicas: whose renewals wait for whom, and what a failover and a lost memory leave of them. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { LockStoreError } from '../../../lib/core/port/errors.js';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import type { LockService } from '../../../lib/lock.service.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy } from '../../support/flaky-proxy.js';
import { DOWN_SOON_MS, startSentinel } from '../../support/redis-sentinel.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, openLocks, openRedisStore } from '../../support/redis-store.js';
import { forEachTest } from '../../support/started.js';

/** Resolves when so many replicas follow the master. */
async function follow(master: RedisServer, count: number): Promise<void> {
  await eventually(async () => expect(await master.command('WAIT', count, 100)).toBe(count), 20_000);
}

/** A master and replicas that follow it. */
async function startReplicated(count: number) {
  const master = await startRedis({ args: ['--repl-diskless-sync-delay', '0'] });
  const args = ['--replicaof', '127.0.0.1', String(master.port)];
  const replicas = await Promise.all(Array.from({ length: count }, () => startRedis({ args })));
  await follow(master, count);
  return { master, replicas, stop: () => Promise.all([master, ...replicas].map((server) => server.stop())) };
}

describe('Of one process whose leases want different numbers of replicas', () => {
  /** Renewals are tried several times while others wait for their replicas once. */
  const LEASE_MS = 1_500;
  const servers = forEachTest(() => startReplicated(2), closeStores);
  let locks: LockService;
  beforeEach(async () => {
    locks = await openLocks(servers.master.url, 'p');
  });

  it('P3: a lease that one replica must acknowledge is kept while others wait for two, of which one is gone', async () => {
    const held = await locks.acquire('k', { minReplicas: 1, leaseMs: LEASE_MS });
    await servers.replicas[1]!.kill();
    const waiting = ['a', 'b'].map((key) => locks.acquire(key, { minReplicas: 2, waitMs: 3 * LEASE_MS }));
    for (const refused of waiting) await expect(refused).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect(held.signal.reason).toBeUndefined();
    expect(await held.release()).toBe('released');
  });

  it('a release is answered when the lock was given back, whether or not replicas have the grant of the next call', async () => {
    for (const replica of servers.replicas) await replica.kill();
    const held = await locks.acquire('k');
    const next = expect(locks.acquire('k', { minReplicas: 1, waitMs: 1_500 })).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect(await held.release()).toBe('released');
    await next;
  });

  it('S1: a lock whose request waits for replicas that are gone is not freed between its tries: a release that is held up would take away what the same request gets later', async () => {
    for (const replica of servers.replicas) await replica.kill();
    const { lockKey } = new RedisKeys('lock').spotOf('k');
    const waiting = expect(locks.acquire('k', { minReplicas: 1, leaseMs: 10_000, waitMs: 3_000 })).rejects.toMatchObject({ code: 'LOCK_STORE' });
    const client = servers.master.client();
    await eventually(async () => expect(await client.exists(lockKey)).toBe(1));
    let hasEnded = false;
    void waiting.finally(() => (hasEnded = true));
    const seen: number[] = [];
    while (!hasEnded) seen.push(await client.exists(lockKey));
    await waiting;
    // The release that follows on the end of the call may be seen, and none before it.
    expect(seen.indexOf(0) < 0 || seen.indexOf(0) > 0.9 * seen.length).toBe(true);
    await eventually(async () => expect(await client.exists(lockKey)).toBe(0));
    client.disconnect();
  });
});

describe('C3: a process that follows a failover', () => {
  const group = forEachTest(() => startSentinel({ replicas: 2, downAfterMs: DOWN_SOON_MS }), closeStores);

  it('counts replicas at the new master, though the former one lives again and takes itself for the master for some seconds', async () => {
    const former = await group.master();
    await follow(former, 2);
    const locks = await openLocks(group.options, 'p');
    await locks.withLock('before', { minReplicas: 1 }, () => undefined);
    await former.pause();
    const present = await group.masterAfter(former);
    await locks.withLock('free', () => undefined);
    await follow(present, 1);
    await former.resume();
    // Without a second try: a connection that still led to the former master would find nothing there.
    await locks.withLock('k', { minReplicas: 1, waitMs: 0 }, (lease) => lease.assertHeld());
  });
});

describe('A master that was restarted empty and has no replica', () => {
  const servers = forEachTest(() => startReplicated(1), closeStores);
  // A renewal that waits in vain for replicas takes most of commandTimeoutMs, which is longer than the recovery lasts.
  const open = (process: string): Promise<LockService> => openLocks(servers.master.url, process, { recoveryMs: 1_000, commandTimeoutMs: 6_000 });

  it.each([
    ['beside another that replicas must acknowledge', 0],
    ['that replicas must acknowledge', 1],
  ])('grants nothing that is held by a lease %s', async (_, minReplicas) => {
    const { master, replicas: [replica] } = servers;
    const [a, b] = [await open('a'), await open('b')];
    const beside = await a.acquire('beside', { minReplicas: 1 });
    const held = await a.acquire('k', { minReplicas });
    let isGranted = false;
    const other = b.acquire('k').then((lease) => {
      isGranted = true;
      return lease;
    });
    await replica!.kill();
    await master.kill();
    await master.restart({ keepData: false });
    // It grants something new: its recovery is over.
    await b.withLock('free', () => undefined);
    expect((await b.inspect('k')).holders).toMatchObject([{ fence: held.fence }]);
    expect((await b.inspect('beside')).holders).toMatchObject([{ fence: beside.fence }]);
    expect(isGranted).toBe(false);
    await replica!.start();
    await follow(master, 1);
    for (const lease of [held, beside]) await eventually(async () => expect(await lease.verify()).toBe(true));
    expect(isGranted).toBe(false);
    expect(await held.release()).toBe('released');
    await (await other).release();
  });
});

describe('A renewal of long leases, whose answer is too far away for short ones,', () => {
  /** To the server, and as long back. */
  const WAY_MS = 30;
  /** Its renewal would have to be answered within 50 ms. */
  const SHORT_MS = 150;
  const servers = forEachTest(() => startReplicated(1), closeStores);
  const proxy = forEachTest(() => startFlakyProxy(servers.master.port), closeStores);

  const request = (how: Partial<AcquireRequest>): AcquireRequest => acquireRequest({ queue: false, notAfter: performance.now() + 2_000, ...how });

  it.each([0, 1])('is waited for as long as they allow, whatever short ones are renewed with them (minReplicas %i)', async (minReplicas) => {
    const store = await openRedisStore(proxy.url, 'p');
    const [long, short] = [request({ minReplicas }), request({ leaseMs: SHORT_MS })];
    for (const each of [long, short]) expect((await store.acquire(each)).kind).toBe('granted');
    proxy.delay(WAY_MS);
    expect(await Promise.all([{ ...short, minReplicas }, long].map((each) => store.renew(each)))).toMatchObject([{ kind: 'unknown' }, { kind: 'renewed' }]);
  });

  it('that replicas must acknowledge is sent apart from the short ones that come in the same moment', async () => {
    const store = await openRedisStore(proxy.url, 'p');
    // Makes the connection on which replicas are waited for.
    await store.acquire(request({ minReplicas: 1 }));
    const held = request({ leaseMs: SHORT_MS, minReplicas: 1 });
    proxy.delay(WAY_MS);
    let over = false;
    // Two of them, so that one always waits for the connection while the other is out.
    const renewals = [1, 2].map(async (turn) => {
      if (turn === 2) await new Promise((resolve) => setImmediate(resolve));
      while (!over) await store.renew(held);
    });
    const asked = Array.from({ length: 12 }, () => store.acquire(request({ minReplicas: 1 })).then(({ kind }) => kind, (error: LockStoreError) => error.message));
    const outcomes = new Set(await Promise.all(asked));
    over = true;
    await Promise.all(renewals);
    expect(outcomes).toEqual(new Set(['granted']));
  });
});
