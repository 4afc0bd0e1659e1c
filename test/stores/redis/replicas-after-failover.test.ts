/** A master that was frozen and replaced, and lives again: for some seconds it takes itself for the master. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { eventually } from '../../support/eventually.js';
import { DOWN_SOON_MS, startSentinel, type SentinelGroup } from '../../support/redis-sentinel.js';
import { closeStores, makeRedisStore } from '../../support/redis-store.js';

let group: SentinelGroup;
let locks: LockService;
beforeEach(async () => {
  group = await startSentinel({ replicas: 2, downAfterMs: DOWN_SOON_MS });
  const master = (await group.master()).client();
  await eventually(async () => {
    await master.set('warm', 'up');
    expect(await master.wait(2, 200)).toBe(2);
  });
  locks = new LockService({ store: makeRedisStore(group.options, 'p'), process: 'p', shutdownGraceMs: 0 });
  await locks.open();
});
afterEach(async () => {
  await locks.close();
  await closeStores();
  await group.stop();
});

describe('C3: a process that follows a failover', () => {
  it('counts replicas at the new master, though the former one lives again', async () => {
    await locks.withLock('before', { minReplicas: 1 }, () => undefined);
    const former = await group.master();
    await former.pause();
    const present = await group.masterAfter(former);
    await locks.withLock('free', () => undefined);
    await eventually(async () => expect(await present.command('WAIT', 1, 100)).toBe(1));
    await former.resume();
    // Without a second try: a connection that still led to the former master would find nothing there.
    await locks.withLock('k', { minReplicas: 1, waitMs: 0 }, (lease) => lease.assertHeld());
  });
});
