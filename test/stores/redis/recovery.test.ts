/** A Redis that forgets what it granted: what becomes of those who hold. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { eventually } from '../../support/eventually.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, makeRedisStore } from '../../support/redis-store.js';

let server: RedisServer;
const services: LockService[] = [];

beforeEach(async () => {
  server = await startRedis();
}, 60_000);
afterEach(async () => {
  await Promise.all(services.splice(0).map((locks) => locks.close()));
  await closeStores();
  await server.stop();
});

async function openLocks(process: string): Promise<LockService> {
  const locks = new LockService({ store: makeRedisStore(server.url, process), process, leaseMs: 30_000, shutdownGraceMs: 0 });
  services.push(locks);
  await locks.open();
  return locks;
}

describe('A Redis that was restarted without its data', () => {
  it('is asked at once for all that is held: a holder with a lease of 30 s knows within a second that it was forgotten', async () => {
    const locks = await openLocks('a');
    const leases = [await locks.acquire('watched'), await locks.acquire('fixed', { renew: false })];
    await server.kill();
    await server.restart({ keepData: false });
    const backAt = performance.now();
    await eventually(async () => {
      for (const lease of leases) expect(lease.signal.aborted || (await lease.verify())).toBe(true);
    }, 5_000);
    expect(performance.now() - backAt).toBeLessThan(1_000);
  }, 30_000);
});
