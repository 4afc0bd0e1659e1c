/** A Redis that forgets what it granted and comes back without a replica: leases that replicas must acknowledge are brought back in time too. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockService } from '../../../lib/lock.service.js';
import { eventually } from '../../support/eventually.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, openLocks as openLocksOn } from '../../support/redis-store.js';

let master: RedisServer;
let replica: RedisServer;
beforeEach(async () => {
  master = await startRedis({ args: ['--repl-diskless-sync-delay', '0'] });
  replica = await startRedis({ args: ['--replicaof', '127.0.0.1', String(master.port)] });
  await follows();
});
afterEach(async () => {
  await closeStores();
  await Promise.all([master, replica].map((server) => server.stop()));
});

async function follows(): Promise<void> {
  await eventually(async () => expect(((await replica.command('ROLE')) as unknown[])[3]).toBe('connected'));
}

// A renewal that waits in vain for replicas takes most of commandTimeoutMs, which is longer than the recovery lasts.
const openLocks = (process: string): Promise<LockService> => openLocksOn(master.url, process, { recoveryMs: 1_000, commandTimeoutMs: 6_000 });

describe('A master that was restarted empty and has no replica', () => {
  it.each([
    ['beside another that replicas must acknowledge', 0],
    ['that replicas must acknowledge', 1],
  ])('grants nothing that is held by a lease %s', async (_, minReplicas) => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    const beside = await a.acquire('beside', { minReplicas: 1 });
    const held = await a.acquire('k', { minReplicas });
    let isGranted = false;
    const other = b.acquire('k').then((lease) => {
      isGranted = true;
      return lease;
    });
    await replica.kill();
    await master.kill();
    await master.restart({ keepData: false });
    // It grants something new: its recovery is over.
    await b.withLock('free', () => undefined);
    expect((await b.inspect('k')).holders).toMatchObject([{ fence: held.fence }]);
    expect((await b.inspect('beside')).holders).toMatchObject([{ fence: beside.fence }]);
    expect(isGranted).toBe(false);
    await replica.start();
    await follows();
    for (const lease of [held, beside]) await eventually(async () => expect(await lease.verify()).toBe(true));
    expect(isGranted).toBe(false);
    expect(await held.release()).toBe('released');
    await (await other).release();
  });
});
