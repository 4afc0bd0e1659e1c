/** Leases of one process that want different numbers of replicas: those who miss theirs keep nobody else from being renewed. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { eventually } from '../../support/eventually.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, makeRedisStore } from '../../support/redis-store.js';

/** Renewals are tried several times while others wait for their replicas once. */
const LEASE_MS = 1_500;

let master: RedisServer;
let replicas: RedisServer[];
let locks: LockService;
beforeEach(async () => {
  master = await startRedis({ args: ['--repl-diskless-sync-delay', '0'] });
  const args = ['--replicaof', '127.0.0.1', String(master.port)];
  replicas = await Promise.all([startRedis({ args }), startRedis({ args })]);
  await eventually(async () => expect(await master.command('WAIT', 2, 100)).toBe(2));
  locks = new LockService({ store: makeRedisStore(master.url, 'p'), process: 'p', shutdownGraceMs: 0 });
  await locks.open();
});
afterEach(async () => {
  await locks.close();
  await closeStores();
  await Promise.all([master, ...replicas].map((server) => server.stop()));
});

describe('P3: a lease that one replica must acknowledge', () => {
  it('is kept while others of its process wait for two, of which one is gone', async () => {
    const held = await locks.acquire('k', { minReplicas: 1, leaseMs: LEASE_MS });
    await replicas[1]!.kill();
    const waiting = ['a', 'b'].map((key) => locks.acquire(key, { minReplicas: 2, waitMs: 3 * LEASE_MS }));
    for (const refused of waiting) await expect(refused).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect(held.signal.reason).toBeUndefined();
    expect(await held.release()).toBe('released');
  });
});

describe('S1: a lock whose request waits for replicas that are gone', () => {
  it('is not freed between its tries: a release that is held up would take away what the same request gets later', async () => {
    for (const replica of replicas) await replica.kill();
    const { lockKey } = new RedisKeys('lock').spotOf('k');
    const waiting = expect(locks.acquire('k', { minReplicas: 1, leaseMs: 10_000, waitMs: 3_000 })).rejects.toMatchObject({ code: 'LOCK_STORE' });
    const client = master.client();
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
