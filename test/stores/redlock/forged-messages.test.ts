/** Messages to a process of a Redlock from somebody who may publish: they make it look, and take nothing away. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { eventually } from '../../support/eventually.js';
import { makeRedlock, startVoters } from '../../support/redlock-store.js';
import { forAll } from '../../support/started.js';

const keys = new RedisKeys('lock');
let locks: LockService;
afterAll(() => locks.close());
const masters = forAll(() => startVoters(3));
beforeAll(async () => {
  locks = new LockService({ store: makeRedlock(masters.map(({ url }) => url), 'p'), process: 'p', shutdownGraceMs: 0 });
  await locks.open();
});
afterEach(async () => {
  await eventually(async () => expect((await locks.inspect('k')).holders).toEqual([]));
});

/** The first end of the lease on the nodes, in their time. */
async function firstEnd(): Promise<number> {
  const { lockKey } = keys.spotOf('k');
  const ends = await Promise.all(masters.map(async (master) => Number(String(await master.command('GET', lockKey)).slice(4, 17))));
  return Math.min(...ends);
}

describe('A message of each node that the lock was taken away', () => {
  it.each([true, false])('ends no hold that the nodes have, with renew: %s', async (renew) => {
    const lease = await locks.acquire('k', { renew, leaseMs: 30_000 });
    const before = await firstEnd();
    for (const master of masters) {
      const [, , ballot] = String(await master.command('GET', keys.spotOf('k').lockKey)).split(' ');
      await master.command('PUBLISH', keys.channel('p'), `l ${ballot} k`);
    }
    // It has looked.
    if (renew) await eventually(async () => expect(await firstEnd()).toBeGreaterThan(before));
    expect(await lease.verify()).toBe(true);
    expect(lease.signal.reason).toBeUndefined();
    expect(await lease.release()).toBe('released');
  });

  it('ends a hold that was taken away', async () => {
    const lease = await locks.acquire('k');
    const lost = new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
    expect(await locks.forceRelease('k')).toBe(true);
    await lost;
    expect(await lease.release()).toBe('lost');
  });
});
