/** A network that gives up connections over which nothing passes for a while, as load balancers and address translators do, often after 30 s. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy, type FlakyProxy, type IdleEnd } from '../../support/flaky-proxy.js';
import { startRedis } from '../../support/redis-server.js';
import { forAll } from '../../support/started.js';
import { USUAL_OPTIONS } from '../../support/store-options.js';
import { connectBy } from '../../support/test-client.js';

const IDLE_MS = 250;
/** A third of it, after which it is renewed, is longer than connections last. */
const LEASE_MS = 3_000;
const COMMAND_TIMEOUT_MS = 1_000;

let proxy: FlakyProxy;
let opened: LockService[];
const server = forAll(startRedis);
beforeEach(async () => {
  proxy = await startFlakyProxy(server.port);
  opened = [];
});
afterEach(async () => {
  await Promise.all(opened.map((locks) => locks.close()));
  await proxy.stop();
});

describe.each([
  ['ioredis', 'closed'],
  ['ioredis', 'forgotten'],
  ['redis', 'closed'],
  ['redis', 'forgotten'],
] as const)('With %s, behind a network by which idle connections are %s,', (client, end: IdleEnd) => {
  async function open(url: string, process: string): Promise<LockService> {
    const store = new RedisStore({ ...USUAL_OPTIONS, recoveryMs: 0, commandTimeoutMs: COMMAND_TIMEOUT_MS, connection: connectBy(url, client), process });
    const locks = new LockService({ store, process });
    opened.push(locks);
    await locks.open();
    return locks;
  }

  it('a process that did nothing for longer is granted a lock, and is woken for one', async () => {
    proxy.dropIdleAfter(IDLE_MS, end);
    const [here, elsewhere] = [await open(proxy.url, 'p'), await open(server.url, 'q')];
    for (let round = 1; round <= 2; round++) {
      const before = proxy.droppedAsIdle;
      await eventually(() => expect(proxy.droppedAsIdle).toBeGreaterThan(before));
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
