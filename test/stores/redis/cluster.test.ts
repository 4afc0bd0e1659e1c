/** The Redis store on a Cluster whose slots move and whose masters die. */
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { AcquireRequest, Wake } from '../../../lib/core/port/lock-store.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import type { ClusterTarget } from '../../../lib/stores/wire/redis-target.js';
import { acquireRequest, newId } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { within } from '../../support/in-time.js';
import { startCluster } from '../../support/redis-cluster.js';
import type { RedisServer } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';
import { connectBy } from '../../support/test-client.js';

const cluster = forAll(() => startCluster({ masters: 3, replicasEach: 1 }));
afterEach(() => closeStores());

const CLIENTS = ['ioredis', 'redis'] as const;
const keys = new RedisKeys('lock');
function request(key: string, how: Partial<AcquireRequest> = {}): AcquireRequest {
  return acquireRequest({ key, ...how });
}

/** Two keys of one slot group: their renewals go in one command, which a migrating slot refuses. */
function twoOfOneGroup(): [string, string] {
  const seen = new Map<number, string>();
  for (let i = 0; ; i++) {
    const key = `order:${i}`;
    const group = keys.groupOf(key);
    const first = seen.get(group);
    if (first !== undefined) return [first, key];
    seen.set(group, key);
  }
}

const slotOf = async (key: string): Promise<number> => cluster.slotOf(keys.lock(key));

async function anotherMaster(than: RedisServer): Promise<RedisServer> {
  return cluster.masters.find((node) => node !== than && node.exitCode === undefined) as RedisServer;
}

describe("an application's own Cluster client", () => {
  it('may have a keyPrefix and commands of its own: they are not those of the locks', async () => {
    const scripts = { get: { lua: "return 'mine'", numberOfKeys: 1 } };
    const own = cluster.client({ keyPrefix: 'app:', scripts, redisOptions: { keyPrefix: 'node:', scripts } });
    const store = await openRedisStore(own, 'p');
    const held = request('own');
    expect((await store.acquire(held)).kind).toBe('granted');
    const found = await Promise.all(cluster.masters.map((node) => node.command('KEYS', '*:l:own')));
    expect(found.flat()).toEqual([expect.stringMatching(/^\{lock:\d+\}:l:own$/)]);
    await store.release(held);
  });
});

describe('a Cluster, where a node knows only its own listeners', () => {
  it('passes over no waiter for that nobody listens there', async () => {
    const processes = Array.from({ length: 8 }, (_, n) => `turn${n}`);
    const stores = await Promise.all(processes.map((process) => openRedisStore({ cluster: cluster.startupNodes }, process)));
    const [first] = stores as [(typeof stores)[0]];
    const held = request('turns');
    expect((await first.acquire(held)).kind).toBe('granted');
    const waiting = processes.map((process) => request('turns', { id: `${process}.1` }));
    for (const [n, store] of stores.entries()) expect((await store.acquire(waiting[n]!)).kind).toBe('waiting');
    for (const { key, id } of [held, ...waiting]) {
      const { holders, waiters } = await first.inspect(key);
      expect(holders).toMatchObject([{ id }]);
      expect(waiters.map((waiter) => waiter.id)).toEqual(waiting.slice(waiting.findIndex((each) => each.id === id) + 1).map((each) => each.id));
      await first.release({ key, id });
    }
  });
});

describe('a slot that moves', () => {
  /** Longer than a machine lets a process stand still, and shorter than all the steps of the move. */
  const LEASE_MS = 3_000;

  it('leaves its locks out of a list while it is half moved, and no others', async () => {
    const store = await openRedisStore({ cluster: cluster.startupNodes }, 'p');
    const held = ['moves', 'stays'].map((key) => request(key));
    for (const each of held) expect((await store.acquire(each)).kind).toBe('granted');
    const slot = await slotOf('moves');
    const target = await anotherMaster(await cluster.masterOf(slot));
    await cluster.beginMigration(slot, target);
    const listed: string[] = [];
    for await (const { key } of store.list()) listed.push(key);
    expect(listed).toEqual(['stays']);
    await cluster.finishMigration(slot, target);
    for (const each of held) await eventually(async () => expect(await store.release(each)).toBe('released'));
  });

  it.each([0, 1])('costs no held lease, however long it stays half moved, whichever side a lock is on, with minReplicas: %i', async (minReplicas) => {
    const store = await openRedisStore({ cluster: cluster.startupNodes }, 'p');
    const held = twoOfOneGroup().map((key) => request(key, { leaseMs: LEASE_MS, minReplicas }));
    for (const each of held) expect((await store.acquire(each)).kind).toBe('granted');
    const slot = await slotOf(held[0]!.key);
    const target = await anotherMaster(await cluster.masterOf(slot));
    await cluster.beginMigration(slot, target);
    let last = performance.now() + LEASE_MS;
    for (let step = 0; step < 14; step++) {
      // One key after another goes to the other side; renewals go on meanwhile.
      if (step % 2 === 1) await cluster.migrateKeys(slot, target, 1);
      // Together, and by callers that know nothing of each other.
      const renewed = await Promise.all([...held, ...held].map((each) => store.renew(each)));
      expect(renewed).toEqual(Array(4).fill(expect.objectContaining({ kind: 'renewed' })));
      expect(performance.now()).toBeLessThan(last);
      last = performance.now() + LEASE_MS;
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    await cluster.finishMigration(slot, target);
    for (const each of held) await eventually(async () => expect(await store.release(each)).toBe('released'));
    const again = request(held[0]!.key);
    await eventually(async () => expect((await store.acquire(again)).kind).toBe('granted'));
    await store.release(again);
  });
});

describe('messages', () => {
  it('reach a waiter wherever its lock lies and its subscriber listens', async () => {
    const [a, b] = [await openRedisStore({ cluster: cluster.startupNodes }, 'p'), await openRedisStore({ cluster: cluster.startupNodes }, 'q')];
    const wakes: Wake[] = [];
    b.onWake((wake) => wakes.push(wake));
    for (let i = 0; i < 12; i++) {
      const held = request(`spread:${i}`);
      const waiting = request(held.key, { id: newId('q') });
      await a.acquire(held);
      expect((await b.acquire(waiting)).kind).toBe('waiting');
      await a.release(held);
      await eventually(() => expect(wakes).toContainEqual(expect.objectContaining({ kind: 'granted', id: waiting.id })));
      expect(await b.release(waiting)).toBe('released');
    }
  });
});

describe('list', () => {
  it('finds those of a master too whose connection was closed while nobody used it', async () => {
    const store = await openRedisStore({ cluster: cluster.startupNodes }, 'p');
    const held = Array.from({ length: 30 }, (_, i) => request(`listed:${i}`));
    for (const each of held) await store.acquire(each);
    const forgotten = new Promise<void>((resolve) => store.redis.connections.commands.events.on('change', () => resolve()));
    await cluster.masters[0]!.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await forgotten;
    await eventually(async () => {
      const found: string[] = [];
      for await (const state of store.list({ startsWith: 'listed:' })) found.push(state.key);
      expect(found.sort()).toEqual(held.map(({ key }) => key).sort());
    });
    for (const each of held) await store.release(each);
  });
});

describe('minReplicas', () => {
  it('is counted at the master of the slot, and refused where it is not met', async () => {
    const store = await openRedisStore({ cluster: cluster.startupNodes }, 'p', { commandTimeoutMs: 1_000 });
    for (let i = 0; i < 6; i++) {
      const ask = request(`replicated:${i}`, { minReplicas: 1 });
      expect((await store.acquire(ask)).kind).toBe('granted');
      expect(await store.renew(ask)).toMatchObject({ kind: 'renewed' });
      expect(await store.release(ask)).toBe('released');
    }
    const ask = request('replicated:2', { minReplicas: 2 });
    await expect(store.acquire(ask)).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true });
    expect(await store.release(ask)).toBe('released');
  });
});

describe('a master that dies', () => {
  it('is replaced by its replica: the lock is found there, and service resumes', async () => {
    const store = await openRedisStore({ cluster: cluster.startupNodes }, 'p', { commandTimeoutMs: 500 });
    const held = request('failover:1', { leaseMs: 30_000, minReplicas: 1 });
    expect((await store.acquire(held)).kind).toBe('granted');
    const slot = await slotOf(held.key);
    const dead = await cluster.masterOf(slot);
    await dead.kill();
    await eventually(async () => expect(await cluster.masterOf(slot)).not.toBe(dead));
    await within(4_000, () => eventually(async () => expect(await store.renew({ ...held, minReplicas: 0 })).toMatchObject({ kind: 'renewed' })));
    expect(await store.release(held)).toBe('released');
  });
});

describe('a password that a Cluster refuses', () => {
  it('fails the boot at once, and the error says so without it', async () => {
    const target = { cluster: cluster.startupNodes, options: { redisOptions: { username: 'nobody', password: 'hunter2' } } };
    const error = await within(3_000, () => openRedisStore(target, 'p').catch((reason: unknown) => reason));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false, message: expect.stringContaining('the Cluster refused the connection') });
    expect(inspect(error, { depth: Infinity })).toContain('WRONGPASS');
    expect(inspect(error, { depth: Infinity })).not.toContain('hunter2');
  });
});

describe('A Cluster that asks for a password', () => {
  const PASSWORD = 'p@ss/word';
  const cluster = forAll(() => startCluster({ masters: 3 }));
  beforeAll(async () => {
    for (const master of cluster.masters) await master.command('CONFIG', 'SET', 'requirepass', PASSWORD);
  });

  const ways: readonly [string, (addresses: readonly string[]) => ClusterTarget][] = [
    ['when the nodes are URLs and the password is among the options', (addresses) => ({ cluster: addresses.map((address) => `redis://${address}`), options: { redisOptions: { password: PASSWORD } } })],
    ['when one node is named as host:port', ([address]) => ({ cluster: [address!], options: { redisOptions: { password: PASSWORD } } })],
    ['when the password is in the URL of each node', (addresses) => ({ cluster: addresses.map((address) => `redis://:${encodeURIComponent(PASSWORD)}@${address}`) })],
  ];
  it.each(ways.flatMap(([way, targetOf]) => CLIENTS.map((client) => [client, way, targetOf] as const)))('is reached by %s %s', async (client, _, targetOf) => {
    const target = targetOf(cluster.masters.map(({ port }) => `127.0.0.1:${port}`));
    const store = await openRedisStore(target, 'p', { connection: connectBy(target, client) });
    for (let n = 0; n < 8; n++) {
      const ask = acquireRequest();
      expect((await store.acquire(ask)).kind).toBe('granted');
      await store.release(ask);
    }
  });
});

describe.each(CLIENTS)('A master of a Cluster that is down, with %s,', (client) => {
  /** In the first seconds all memories are asked for once more. */
  const SETTLED_MS = 3_000;
  const WATCHED_MS = 4_000;
  const cluster = forAll(() => startCluster({ args: ['--cluster-require-full-coverage', 'no'] }));

  /** How many commands the other masters have run, those of scripts included, or have sent elsewhere. */
  async function commandsOfOthers(): Promise<number> {
    const counts = cluster.masters.slice(1).map(async (node) => {
      const stats = String(await node.command('INFO', 'stats'));
      const counted = (name: string): number => Number(new RegExp(`${name}:(\\d+)`).exec(stats)?.[1] ?? 0);
      return counted('total_commands_processed') + counted('total_error_replies');
    });
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  }

  it('does not make a process that wants nothing ask the others all the time who they are', async () => {
    const target = { cluster: cluster.startupNodes };
    await openRedisStore(target, 'p1', { recoveryMs: 1_000, connection: connectBy(target, client) });
    await cluster.masters[0]!.stop();
    await sleep(SETTLED_MS);
    const before = await commandsOfOthers();
    await sleep(WATCHED_MS);
    const perSecond = ((await commandsOfOthers()) - before) / (WATCHED_MS / 1_000);
    console.log(`one master is down, with ${client}: ${perSecond} commands a second`);
    expect(perSecond).toBeLessThan(100);
  });
});
