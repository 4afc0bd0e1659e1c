/** A permit beside others, which is taken and given back on the text of the record: it is as exact as where all of it is read. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';

const keys = new RedisKeys('lock');
const lockKey = keys.lock('k');
let server: RedisServer;

beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());
beforeEach(async () => {
  await server.command('FLUSHALL');
});
afterEach(() => closeStores());

function request(how: Partial<AcquireRequest> = {}): AcquireRequest {
  return acquireRequest({ key: 'k', leaseMs: 30_000, permits: 3, ...how });
}

describe('A permit beside others', () => {
  it('is the same one when it is asked for again, and each has a higher fence than those before', async () => {
    const store = await openRedisStore(server.url, 'p');
    const holds = [request(), request(), request({ label: 'Mail.send', graceMs: 500 })];
    for (const hold of holds) expect(await store.acquire(hold)).toMatchObject({ kind: 'granted', grant: { fences: 1, contended: false } });
    const record = await server.command('GET', lockKey);
    for (const hold of holds) expect((await store.acquire(hold)).kind).toBe('granted');
    expect(await server.command('GET', lockKey)).toBe(record);
    const { holders } = await store.inspect('k');
    expect(holders.map(({ id }) => id)).toEqual(holds.map(({ id }) => id));
    expect(holders[2]).toMatchObject({ label: 'Mail.send', graceMs: 500 });
    const fences = holders.map(({ fence }) => fence);
    expect(fences).toEqual([...new Set(fences)].sort((one, other) => one - other));
  });

  it('is not given to more than there are permits, nor to another number, nor past those who wait', async () => {
    const store = await openRedisStore(server.url, 'p');
    const holds = [request(), request(), request()];
    for (const hold of holds.slice(0, 2)) expect((await store.acquire(hold)).kind).toBe('granted');
    expect(await store.acquire(request({ permits: 4 }))).toEqual({ kind: 'permits', permits: 3 });
    expect(await store.acquire(request({ permits: undefined, owner: '3' }))).toEqual({ kind: 'permits', permits: 3 });
    expect((await store.acquire(holds[2]!)).kind).toBe('granted');
    const [first, second] = [request(), request()];
    expect((await store.acquire(first)).kind).toBe('waiting');
    expect((await store.acquire(second)).kind).toBe('waiting');
    expect(await store.release(holds[0]!)).toBe('released');
    expect((await store.acquire(request({ queue: false }))).kind).toBe('busy');
    const { holders, waiters } = await store.inspect('k');
    expect(holders.map(({ id }) => id)).toEqual([holds[1]!.id, holds[2]!.id, first.id]);
    expect(waiters.map(({ id }) => id)).toEqual([second.id]);
  });

  it('is free again when the leases of others have ended', async () => {
    const store = await openRedisStore(server.url, 'p');
    const ended = [request({ leaseMs: 100 }), request({ leaseMs: 100 }), request({ leaseMs: 100 })];
    for (const hold of ended) expect((await store.acquire(hold)).kind).toBe('granted');
    const later = request();
    const outcome = await store.acquire(later);
    expect(outcome.kind).toBe('waiting');
    await server.command('DEBUG', 'SLEEP', '0.15');
    expect((await store.acquire(later)).kind).toBe('granted');
    expect((await store.inspect('k')).holders.map(({ id }) => id)).toEqual([later.id]);
  });
});
