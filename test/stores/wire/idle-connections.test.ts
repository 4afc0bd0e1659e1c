/** Networks that give up connections over which nothing passes for a while, as load balancers do, often after 30 s, and servers that are far away. */
import { describe, expect, it } from '@jest/globals';
import type { LockService } from '../../../lib/lock.service.js';
import type { ClientPackage } from '../../../lib/stores/wire/redis-target.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy, type IdleEnd } from '../../support/flaky-proxy.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, openLocks } from '../../support/redis-store.js';
import { forAll, forEachTest } from '../../support/started.js';
import { connectBy } from '../../support/test-client.js';

const IDLE_MS = 250;
/** A third of it, after which it is renewed, is longer than connections last. */
const LEASE_MS = 3_000;

const server = forAll(startRedis);
const proxy = forEachTest(() => startFlakyProxy(server.port), closeStores);

describe.each([
  ['ioredis', 'closed'],
  ['ioredis', 'forgotten'],
  ['redis', 'closed'],
  ['redis', 'forgotten'],
] as const)('With %s, behind a network by which idle connections are %s,', (client, end: IdleEnd) => {
  const open = (url: string, process: string): Promise<LockService> => openLocks(url, process, { commandTimeoutMs: 1_000, connection: connectBy(url, client) });

  it('a process that did nothing for longer is granted a lock, and is woken for one', async () => {
    proxy.dropIdleAfter(IDLE_MS, end);
    const [here, elsewhere] = [await open(proxy.url, 'p'), await open(server.url, 'q')];
    let dropped = 0;
    for (let round = 1; round <= 2; round++) {
      await eventually(() => expect(proxy.droppedAsIdle).toBeGreaterThan(dropped));
      dropped = proxy.droppedAsIdle;
      await here.withLock('k', async (lease) => lease.assertHeld());
      const other = await elsewhere.acquire('k');
      const waits = here.withLock('k', async (lease) => lease.fence);
      await eventually(async () => expect((await elsewhere.inspect('k')).waiters).toHaveLength(1));
      await other.release();
      expect(await waits).toBeGreaterThan(other.fence);
    }
  });

  it('a lease that is renewed less often is kept', async () => {
    proxy.dropIdleAfter(IDLE_MS, end);
    const locks = await open(proxy.url, 'p');
    await locks.withLock('k', { leaseMs: LEASE_MS }, async (lease) => {
      await eventually(() => expect(lease.heldMs).toBeGreaterThan(1.5 * LEASE_MS), 3 * LEASE_MS);
      lease.assertHeld();
      await eventually(async () => expect(await lease.verify()).toBe(true));
    });
    expect(proxy.droppedAsIdle).toBeGreaterThan(3);
  });
});

/** A command fits into commandTimeoutMs, and the several exchanges of a new connection do not. */
describe.each<ClientPackage>(['ioredis', 'redis'])('With %s and a server that is far away', (client) => {
  it('C3: a process connects again when its connections were reset', async () => {
    const locks = await openLocks(proxy.url, 'p', { recoveryMs: 1_000, commandTimeoutMs: 400, connection: connectBy(proxy.url, client) });
    proxy.delay(120);
    proxy.resetConnections();
    await locks.withLock('k', (lease) => lease.assertHeld());
    await eventually(async () => expect(await server.command('PUBSUB', 'CHANNELS', '{lock}:c:p')).toEqual(['{lock}:c:p']));
  });
});
