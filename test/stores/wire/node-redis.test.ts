/** Clients of node-redis that an application gives, and what becomes of its connections when the server or the network fails. */
import { describe, expect, it } from '@jest/globals';
import { createClient, createCluster, createSentinel } from 'redis';
import { connectTo } from '../../../lib/stores/wire/connect-to.js';
import type { RedisTarget } from '../../../lib/stores/wire/redis-target.js';
import type { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { within } from '../../support/in-time.js';
import { startFlakyProxy } from '../../support/flaky-proxy.js';
import { startCluster } from '../../support/redis-cluster.js';
import { startSentinel } from '../../support/redis-sentinel.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { forAll, forEachTest } from '../../support/started.js';

const server = forAll(() => startRedis({ args: ['--requirepass', 'secret'] }));
const proxy = forEachTest(() => startFlakyProxy(server.port), closeStores);

const request = () => acquireRequest({ notAfter: performance.now() + 2_000 });

async function openOn(target: RedisTarget, process = 'p', commandTimeoutMs = 2_000): Promise<RedisStore> {
  return openRedisStore('', process, { connection: await connectTo(target), commandTimeoutMs });
}

async function locksOn(store: RedisStore): Promise<void> {
  const held = request();
  expect(await store.acquire(held)).toMatchObject({ kind: 'granted' });
  expect(await store.release(held)).toBe('released');
}

/** Options that would change what a command means, or when it is sent. */
const UNWANTED = {
  RESP: 3,
  name: 'orders',
  keyPrefix: 'app:',
  commandsQueueMaxLength: 1,
  pingInterval: 10,
  commandOptions: { timeout: 1, typeMapping: { 58: String, 36: Buffer } },
} as const;

async function clientNames(on: RedisServer): Promise<readonly (string | undefined)[]> {
  const client = on.client({ password: 'secret' });
  const lines = String(await client.call('CLIENT', 'LIST')).trim().split('\n');
  client.disconnect();
  return lines.map((line) => / name=(\S*)/.exec(line)?.[1]);
}

describe('a client that createClient() made', () => {
  it('says how to connect, and is neither connected, used nor closed', async () => {
    const given = createClient({ url: `redis://default:secret@127.0.0.1:${server.port}/3`, ...UNWANTED });
    const errors: unknown[] = [];
    given.on('error', (error) => errors.push(error));
    const store = await openOn(given as unknown as RedisTarget);
    const held = request();
    expect(await store.acquire(held)).toMatchObject({ kind: 'granted' });
    const keys = server.client({ password: 'secret', db: 3 });
    expect(await keys.keys('{lock:*}:l:*')).toHaveLength(1);
    await store.release(held);
    await store.close();
    expect([given.isOpen, errors]).toEqual([false, []]);
  });

  it('that is in use goes on as before, with its own replies and subscriptions', async () => {
    const given = createClient({ url: `redis://:secret@127.0.0.1:${server.port}`, name: 'orders' });
    given.on('error', () => {});
    await given.connect();
    const store = await openOn(given as unknown as RedisTarget);
    await locksOn(store);
    expect((await clientNames(server)).filter((name) => name === 'nestjs-holdfast')).toHaveLength(2);
    expect((await clientNames(server)).filter((name) => name === 'orders')).toHaveLength(1);
    await store.close();
    expect(await given.set('app', '1')).toBe('OK');
    expect([given.isReady, given.isPubSubActive]).toEqual([true, false]);
    await eventually(async () => expect((await clientNames(server)).filter((name) => name === 'nestjs-holdfast')).toEqual([]));
    given.destroy();
  });
});

describe('a connection by node-redis', () => {
  const target = () => createClient({ url: `redis://:secret@127.0.0.1:${proxy.port}` }) as unknown as RedisTarget;

  it('is made again when it was reset, refused for a while, or hung up on, and keeps what it held', async () => {
    const store = await openOn(target(), 'p', 400);
    const held = request();
    expect(await store.acquire(held)).toMatchObject({ kind: 'granted' });
    for (const [fail, restore] of [
      [() => proxy.resetConnections(), () => {}],
      [() => proxy.cut(), () => proxy.heal()],
      [() => proxy.hangUp(), () => proxy.pickUp()],
    ] as const) {
      await fail();
      await expect(store.inspect(held.key)).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true });
      await restore();
      await eventually(async () => expect(await store.inspect(held.key)).toMatchObject({ mode: 'write', holders: [{ id: held.id }] }));
    }
    expect(await store.release(held)).toBe('released');
  });

  it('that has stopped answering is left for a new one', async () => {
    const store = await openOn(target(), 'p', 400);
    const before = proxy.accepted;
    proxy.freezePresent();
    await expect(store.inspect('k')).rejects.toMatchObject({ code: 'LOCK_STORE' });
    await eventually(() => expect(proxy.accepted).toBeGreaterThan(before));
    await eventually(() => store.inspect('k'));
  });

  it('sends nothing twice: a command whose reply was lost fails, and its lock is taken once', async () => {
    const store = await openOn(target(), 'p', 400);
    const lost = request();
    const seen = await scriptsWith(lost.id);
    proxy.dropReplies(true);
    await expect(store.acquire(lost)).rejects.toMatchObject({ code: 'LOCK_STORE' });
    proxy.dropReplies(false);
    await eventually(() => store.inspect(lost.key));
    expect(seen).toHaveLength(1);
    expect(await store.release(lost)).toBe('released');
  });

  it('is refused at boot with a wrong password, at once', async () => {
    const wrong = createClient({ url: `redis://:wrong@127.0.0.1:${server.port}` }) as unknown as RedisTarget;
    await expect(within(4_000, () => openOn(wrong))).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false, message: expect.stringContaining('refused the connection: WRONGPASS') });
  });

  /** The scripts with this id among their arguments, as the server gets them. */
  async function scriptsWith(id: string): Promise<readonly string[]> {
    const seen: string[] = [];
    const monitor = await server.client({ password: 'secret' }).monitor();
    monitor.on('monitor', (_time: string, [name = '', ...args]: string[]) => {
      if (/^eval/i.test(name) && args.some((arg) => arg.includes(id))) seen.push(name);
    });
    return seen;
  }
});

describe('a client that createCluster() made', () => {
  it('locks on every master, and is not connected', async () => {
    const cluster = await startCluster();
    const given = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${cluster.masters[1]!.port}` }], useReplicas: true });
    const store = await openOn(given as unknown as RedisTarget);
    await Promise.all(Array.from({ length: 30 }, () => locksOn(store)));
    expect(given.isOpen).toBe(false);
    await store.close();
    await cluster.stop();
  });
});

describe('a client that createSentinel() made', () => {
  it('locks on the master, and on its successor after a failover', async () => {
    const group = await startSentinel({ downAfterMs: 1_000 });
    const given = createSentinel({ name: 'holdfast', sentinelRootNodes: group.sentinels.map(({ port }) => ({ host: '127.0.0.1', port })) });
    const store = await openOn(given as unknown as RedisTarget);
    await locksOn(store);
    await group.failover();
    await eventually(() => locksOn(store));
    expect(given.isOpen).toBe(false);
    await store.close();
    await group.stop();
  });
});
