/** A master that was made a replica answers all that is on its way with READONLY at once. */
import { afterAll, describe, expect, it, jest } from '@jest/globals';
import type { Redis } from 'ioredis';
import type { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import type { Connections } from '../../../lib/stores/wire/connections.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';

/**
 * How often the server was left. Each time that it is told to leave, ioredis also adds a listener to the socket; Node warns of a leak
 * from the eleventh.
 */
function countLeavings(store: RedisStore): () => number {
  const { connections } = store as unknown as { connections: Connections & { client?: Redis } };
  if (connections.client !== undefined) {
    const end = jest.spyOn(connections.client.stream, 'end');
    return () => end.mock.calls.length;
  }
  let ends = 0;
  connections.commands.onEnd(() => ends++);
  return () => ends;
}

describe('A server that has become read-only', () => {

  afterAll(() => closeStores());
  const redis = forAll(startRedis);

  it('is left once, not once for each of a hundred answers, and served from again when it can write', async () => {
    const store = await openRedisStore(redis.url, 'p1');
    const ask = (n: number) => ({
      key: `k${n}`, id: `p1.${n}`, mode: 'write' as const, leaseMs: 1_000, queue: false, fences: 1, minHoldMs: 0, minReplicas: 0, notAfter: performance.now() + 5_000,
    });
    const leavings = countLeavings(store);
    await redis.command('REPLICAOF', '127.0.0.1', 1);
    const answers = await Promise.allSettled(Array.from({ length: 100 }, (_, n) => store.acquire(ask(n))));
    expect(answers.every(({ status }) => status === 'rejected')).toBe(true);
    await redis.command('REPLICAOF', 'NO', 'ONE');
    let outcome;
    for (const until = performance.now() + 2_000; outcome === undefined && performance.now() < until; ) {
      outcome = await store.acquire(ask(200)).catch(() => new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), 20)));
    }
    expect(outcome).toMatchObject({ kind: 'granted' });
    expect(leavings()).toBe(1);
  });

  it.each(['acquire', 'heartbeat', 'renew', 'release'] as const)('is left also when it refuses the %s of one key, which is no error of the whole script', async (verb) => {
    const store = await openRedisStore(redis.url, verb);
    const request = (id: string, key: string) => ({
      key, id: `${verb}.${id}`, mode: 'write' as const, permits: 1, leaseMs: 5_000, queue: true, fences: 1, minHoldMs: 0, minReplicas: 0, notAfter: performance.now() + 5_000,
    });
    const [holder, waiter] = [request('1', verb), request('2', verb)];
    expect(await store.acquire(holder)).toMatchObject({ kind: 'granted' });
    expect(await store.acquire(waiter)).toMatchObject({ kind: 'waiting' });
    const leavings = countLeavings(store);
    await redis.command('REPLICAOF', '127.0.0.1', 1);
    const asked = {
      acquire: () => store.acquire(request('3', 'another')),
      heartbeat: () => store.heartbeat([waiter]),
      renew: () => store.renew([holder]),
      release: () => store.release(holder),
    };
    await asked[verb]().catch(() => undefined);
    const left = leavings();
    await redis.command('REPLICAOF', 'NO', 'ONE');
    expect(left).toBe(1);
  });
});
