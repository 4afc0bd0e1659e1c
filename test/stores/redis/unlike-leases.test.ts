/** Short leases beside long ones, an answer away of which the short ones cannot wait: what it costs the long ones. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { LockStoreError } from '../../../lib/core/port/errors.js';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy, type FlakyProxy } from '../../support/flaky-proxy.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';

/** To the server, and as long back. */
const WAY_MS = 30;
/** Its renewal would have to be answered within 50 ms. */
const SHORT_MS = 150;

let master: RedisServer;
let replica: RedisServer;
let proxy: FlakyProxy;

beforeAll(async () => {
  [master, replica] = await Promise.all([startRedis(), startRedis()]);
  await replica.command('REPLICAOF', '127.0.0.1', master.port);
  const client = master.client();
  await eventually(async () => {
    await client.set('warm', 'up');
    expect(await client.wait(1, 200)).toBe(1);
  }, 20_000);
  proxy = await startFlakyProxy(master.port);
});
afterEach(async () => {
  await closeStores();
  proxy.delay(0);
});
afterAll(async () => {
  await proxy.stop();
  await Promise.all([master.stop(), replica.stop()]);
});

function request(how: Partial<AcquireRequest>): AcquireRequest {
  return acquireRequest({ queue: false, notAfter: performance.now() + 2_000, ...how });
}

describe('A renewal of long leases', () => {
  it.each([0, 1])('is waited for as long as they allow, whatever short ones are renewed with them (minReplicas %i)', async (minReplicas) => {
    const store = await openRedisStore(proxy.url, 'p');
    const [long, short] = [request({ minReplicas }), request({ leaseMs: SHORT_MS })];
    for (const each of [long, short]) expect((await store.acquire(each)).kind).toBe('granted');
    proxy.delay(WAY_MS);
    expect(await store.renew([{ ...short, minReplicas }, long])).toMatchObject([{ kind: 'unknown' }, { kind: 'renewed' }]);
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
      while (!over) await store.renew([held]);
    });
    const asked = Array.from({ length: 12 }, () => store.acquire(request({ minReplicas: 1 })).then(({ kind }) => kind, (error: LockStoreError) => error.message));
    const outcomes = new Set(await Promise.all(asked));
    over = true;
    await Promise.all(renewals);
    expect(outcomes).toEqual(new Set(['granted']));
  });
});
