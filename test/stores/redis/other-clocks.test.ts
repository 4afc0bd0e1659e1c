/** A server whose clock is wrong by years, as one without a battery is, before or after it took its first locks: A3 allows it. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import { acquireRequest, granted, newId } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { SteppedClock } from '../../faults/crew/stepped-clock.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, makeRedisStore, openRedisStore } from '../../support/redis-store.js';

let clock: SteppedClock;
let server: RedisServer;

beforeAll(async () => {
  const made = await SteppedClock.make();
  if (made === undefined) throw new Error('these tests need gcc: they set the clock of a server');
  clock = made;
});
afterAll(() => clock.remove());
afterEach(async () => {
  await closeStores();
  await server.stop();
});

/** Sets the server's clock to an instant. */
const setTo = (date: string): Promise<void> => clock.set(Date.parse(date) - Date.now());

async function start(date: string): Promise<void> {
  await setTo(date);
  server = await startRedis({ env: clock.env });
}

function request(key: string, how: Partial<AcquireRequest> = {}): AcquireRequest {
  return acquireRequest({ key, ...how });
}

const DATES = ['1970-01-03T00:00:00Z', '1978-06-01T00:00:00Z', '1999-12-31T23:59:59Z', '2001-09-09T01:46:39.600Z', '2106-02-07T06:28:15Z'];

describe.each(DATES)('a server whose clock shows %s', (date) => {
  it('is booted on, and every promise of one lock holds', async () => {
    await start(date);
    const [first, second] = await Promise.all(['a', 'b'].map(async (process) => {
      const locks = new LockService({ store: makeRedisStore(server.url, process), process });
      await locks.open();
      return locks;
    })) as [LockService, LockService];
    const fences: number[] = [];
    let inside = 0;
    const turn = async (locks: LockService): Promise<void> =>
      locks.withLock('k', { leaseMs: 300 }, async (lease) => {
        expect((inside += 1)).toBe(1);
        fences.push(lease.fence);
        await eventually(() => expect(lease.heldMs).toBeGreaterThan(30));
        expect(await lease.verify()).toBe(true);
        inside -= 1;
      });
    await Promise.all(Array.from({ length: 12 }, (_, n) => turn(n % 2 === 0 ? first : second)));
    expect(fences).toEqual([...fences].sort((one, other) => one - other));
    expect(new Set(fences).size).toBe(12);
    await first.withLock('long', { leaseMs: 300 }, async (lease) => {
      await eventually(() => expect(lease.heldMs).toBeGreaterThan(700));
      lease.assertHeld();
      await expect(second.acquire('long', { waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    });
    expect((await server.command('KEYS', '*:[lq]:*')) as string[]).toEqual([]);
    await Promise.all([first.close(), second.close()]);
  });

  it('frees the lock of a holder that died when its lease ends, and not before', async () => {
    await start(date);
    const store = await openRedisStore(server.url, 'p');
    const [dead, next] = [request('k', { leaseMs: 400 }), request('k', { queue: false })];
    const { trustedUntil, fence } = granted(await store.acquire(dead));
    let outcome = await store.acquire(next);
    expect(outcome.kind).toBe('busy');
    await eventually(async () => {
      outcome = await store.acquire({ ...next, id: newId() });
      expect(outcome.kind).toBe('granted');
    });
    expect(performance.now()).toBeGreaterThan(trustedUntil);
    expect(granted(outcome).fence).toBeGreaterThan(fence);
    expect(await store.release(dead)).toBe('lost');
  });
});

describe('a server whose data are intact while its clock is years behind', () => {
  it.each(['1970-01-03T00:00:00Z', '1999-12-31T23:59:59Z'])('grants fences above all before, at %s', async (date) => {
    await clock.set(0);
    server = await startRedis({ env: clock.env });
    const before = await openRedisStore(server.url, 'p');
    const first = request('k');
    const { fence } = granted(await before.acquire(first));
    await before.release(first);
    await setTo(date);
    // A process that has seen no fence yet: nobody tells the server.
    const after = await openRedisStore(server.url, 'q');
    const fences = [fence];
    for (let round = 0; round < 3; round++) {
      const next = request('k');
      fences.push(granted(await after.acquire(next)).fence);
      expect(await after.release(next)).toBe('released');
    }
    const held = request('k');
    fences.push(granted(await after.acquire(held)).fence);
    const waiting = request('k', { id: newId('q') });
    expect((await after.acquire(waiting)).kind).toBe('waiting');
    await after.release(held);
    fences.push(granted(await after.acquire(waiting)).fence);
    expect(fences).toEqual([...fences].sort((one, other) => one - other));
    expect(new Set(fences).size).toBe(fences.length);
  });
});
