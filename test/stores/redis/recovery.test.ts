/** A Redis that forgets what it granted: those who hold bring their leases back before anything new is granted. */
import { afterEach, describe, expect, it } from '@jest/globals';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { LockDefaults } from '../../../lib/core/port/lock-options.js';
import type { HeldLease, Wake } from '../../../lib/core/port/lock-store.js';
import { LockService } from '../../../lib/lock.service.js';
import type { RedisStoreOptions } from '../../../lib/stores/redis/redis-store.js';
import { recall, renew } from '../../../lib/stores/wire/lua.generated.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { acquireRequest, granted } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy } from '../../support/flaky-proxy.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, makeRedisStore, openLocks as openLocksOn, openRedisStore } from '../../support/redis-store.js';
import { forEachTest } from '../../support/started.js';
import { broughtBack, storeEvents } from '../../support/store-events.js';

const RECOVERY_MS = 1_000;
const keys = new RedisKeys('lock');

const afterTest: (() => void)[] = [];

afterEach(() => afterTest.splice(0).forEach((done) => done()));
const server = forEachTest(startRedis, closeStores);

function openLocks(process: string, options: Partial<RedisStoreOptions> = {}, defaults: LockDefaults = { waitMs: 20_000 }, url = server.url): Promise<LockService> {
  return openLocksOn(url, process, { recoveryMs: RECOVERY_MS, ...options }, defaults);
}

/** The server has served for longer than a recovery lasts: everything is granted. */
async function servesAll(locks: LockService): Promise<void> {
  await (await locks.acquire('warm')).release();
}

async function flush(): Promise<void> {
  await server.command('FLUSHALL');
}

async function restartEmpty(): Promise<void> {
  await server.kill();
  await server.restart({ keepData: false });
}

async function isStillHeld(lease: Lease): Promise<void> {
  await eventually(async () => expect(await lease.verify()).toBe(true), 5_000);
}

/** What the first request is answered that reaches a server. */
async function firstAnswer(locks: LockService, key: string): Promise<unknown> {
  for (;;) {
    try {
      return await locks.tryAcquire(key);
    } catch (error) {
      const { nodes } = error as { nodes: { reason: string }[] };
      if (nodes[0]?.reason === 'recovering') return 'recovering';
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** The names of the scripts that the server runs from here on. */
async function scriptsSent(): Promise<string[]> {
  const sent: string[] = [];
  // A connection that has not run a script yet sends its source, which the monitor shows with escapes.
  const shown = (source: string): string => source.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
  const names = new Map(Object.entries({ recall, renew }).flatMap(([name, { sha1, source }]) => [[sha1, name], [shown(source), name]] as const));
  const monitor = await server.client().monitor();
  afterTest.push(() => monitor.disconnect());
  monitor.on('monitor', (_time: string, [, script = '']: string[]) => names.has(script) && sent.push(names.get(script)!));
  return sent;
}

/** Closes the connection on which the only process sends its scripts. */
async function disconnect(): Promise<void> {
  const clients = (await server.command('CLIENT', 'LIST', 'TYPE', 'normal')) as string;
  const ours = clients.split('\n').filter((line) => line.includes('name=nestjs-holdfast'));
  expect(ours).toHaveLength(1);
  await server.command('CLIENT', 'KILL', 'ID', /^id=(\d+)/.exec(ours[0]!)![1]!);
}

describe.each([
  { what: 'that was restarted without its data', forget: restartEmpty, reason: 'restarted-or-replaced' },
  { what: 'that was flushed', forget: flush, reason: 'flushed' },
])('A Redis $what', ({ forget, reason }) => {
  it('is told as an event when it is noticed and one when it is over, with how many leases the process brought back', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    await servesAll(a);
    const leases = [await a.acquire('one'), await a.acquire('two')];
    const told = [a, b].map(storeEvents);
    await forget();
    for (const events of told) {
      await eventually(() => expect(events.map(({ type }) => type)).toEqual(['storeForgot', 'storeRecovered']), 10_000);
      expect(events[0]).toMatchObject({ store: server.url.slice('redis://'.length), reason, forMs: expect.any(Number) });
    }
    expect(told.map(broughtBack)).toEqual([2, 0]);
    for (const lease of leases) expect(await lease.release()).toBe('released');
  });

  it('gets all permits back from those who hold them, with their number, and grants no more than are left', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    await servesAll(a);
    const held = [await a.acquire('k', { permits: 3 }), await b.acquire('k', { permits: 3 })];
    await forget();
    const third = await b.acquire('k', { permits: 3 });
    for (const lease of held) await isStillHeld(lease);
    expect(await a.inspect('k')).toMatchObject({ permits: 3, holders: [{}, {}, {}] });
    await expect(a.acquire('k', { permits: 3, waitMs: 100 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    await expect(a.acquire('k')).rejects.toMatchObject({ code: 'LOCK_USAGE' });
    expect(third.fence).toBeGreaterThan(Math.max(...held.map(({ fence }) => fence)));
    for (const lease of [...held, third]) expect(await lease.release()).toBe('released');
  });

  it('grants a lock that is held to nobody else, and the holder keeps it under its id and fence', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    await servesAll(a);
    const held = await a.acquire('k');
    const before = (await a.inspect('k')).holders[0]!;
    await forget();
    const other = b.acquire('k');
    await isStillHeld(held);
    // The second process may still be connecting again.
    await eventually(async () => expect((await b.inspect('k')).holders).toMatchObject([{ id: before.id, fence: before.fence }]));
    expect(await held.release()).toBe('released');
    const next = await other;
    expect(next.fence).toBeGreaterThan(held.fence);
    expect(held.signal.aborted).toBe(false);
  });

  it('tells who does not wait that it recovers, lets wait who does, and serves everybody after recoveryMs', async () => {
    // Long enough for both to connect again on a busy machine while the server recovers.
    const recoveryMs = 3_000;
    const [a, b] = [await openLocks('a', { recoveryMs }), await openLocks('b', { recoveryMs })];
    await servesAll(a);
    await forget();
    expect(await firstAnswer(b, 'free')).toBe('recovering');
    const askedAt = performance.now();
    const lease = await b.acquire('free');
    expect(performance.now() - askedAt).toBeLessThan(recoveryMs + 2_000);
    await lease.release();
    expect(await a.withLock('other', async () => 'served')).toBe('served');
  });

  it('revives nothing with recoveryMs 0: what is held is lost, and told at once after a restart', async () => {
    const a = await openLocks('a', { recoveryMs: 0 });
    const held = await a.acquire('k', { leaseMs: 900 });
    await forget();
    await eventually(() => expect(held.signal.aborted).toBe(true), 3_000);
    await eventually(async () => expect((await a.inspect('k')).holders).toEqual([]), 5_000);
  });
});

describe('A Redis that was flushed', () => {
  it('counts holds as released that are handed to the next caller of the process before anybody has noticed', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    await servesAll(a);
    const keys = Array.from({ length: 20 }, (_, n) => `k${n}`);
    const held = await Promise.all(keys.map((key) => a.acquire(key)));
    // Their leases are of another length, so that they cannot follow on the same lease.
    const next = keys.map((key) => a.acquire(key, { leaseMs: 20_000 }));
    await flush();
    expect(new Set(await Promise.all(held.map((lease) => lease.release())))).toEqual(new Set(['released']));
    for (const lease of await Promise.all(next)) expect(lease.fence).toBeGreaterThan(Math.max(...held.map(({ fence }) => fence)));
    await expect(b.tryAcquire('k0')).resolves.toBeNull();
  });
});

describe('A Redis that loads an older snapshot while it runs', () => {
  it('tells all processes: what was granted since is brought back at once, before anybody asks for it', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    await servesAll(a);
    await server.command('SAVE');
    const held = await a.acquire('k');
    await server.command('DEBUG', 'RELOAD', 'NOSAVE');
    // Its next renewal comes after several seconds.
    await eventually(async () => expect((await b.inspect('k')).holders).toMatchObject([{ fence: held.fence }]), 3_000);
    const next = b.acquire('k');
    expect(await held.release()).toBe('released');
    expect((await next).fence).toBeGreaterThan(held.fence);
  });

  it('has the ends of before in it, which are made up for at once also where no fence shows that it is older', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    const [first, waiting] = [await b.acquire('k'), a.acquire('k')];
    await eventually(async () => expect((await b.inspect('k')).waiters).toHaveLength(1));
    await first.release();
    const held = await waiting;
    // The snapshot has the short lease of a grant from the queue.
    await server.command('SAVE');
    const isRenewed = (): Promise<void> => eventually(async () => expect((await b.inspect('k')).holders[0]?.remainingMs).toBeGreaterThan(20_000), 3_000);
    await isRenewed();
    await server.command('DEBUG', 'RELOAD', 'NOSAVE');
    await isRenewed();
    expect(await held.verify()).toBe(true);
  });

  it('gives a lease back that has ended in it, as long as its holder trusts it and nobody else has the lock', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    const [first, waiting] = [await b.acquire('k'), a.acquire('k')];
    await eventually(async () => expect((await b.inspect('k')).waiters).toHaveLength(1));
    await first.release();
    const held = await waiting;
    await server.command('SAVE');
    const savedAt = performance.now();
    // A grant from the queue lasts 1.5 s until its first renewal, which the snapshot does not have.
    await eventually(() => expect(performance.now() - savedAt).toBeGreaterThan(1_600), 3_000);
    held.assertHeld();
    await server.command('DEBUG', 'RELOAD', 'NOSAVE');
    await eventually(async () => expect((await b.inspect('k')).holders).toMatchObject([{ fence: held.fence }]), 3_000);
    expect(await held.release()).toBe('released');
  });

  it('is asked as before by a process whose user may not hear of it', async () => {
    await server.command('ACL', 'SETUSER', 'default', '-client', '+client|setname');
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    await servesAll(a);
    const held = await a.acquire('k');
    await flush();
    await expect(b.acquire('k', { waitMs: 2_000 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    await isStillHeld(held);
  });
});

describe('A process that knows that a Redis forgot', () => {
  it('brings back what it holds, and does not ask for renewals that would find nothing', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    await servesAll(a);
    const held = await Promise.all(['one', 'two', 'three'].map((key) => a.acquire(key)));
    const sent = await scriptsSent();
    await flush();
    const other = b.acquire('one');
    await eventually(async () => expect((await b.inspect('three')).holders).toMatchObject([{ fence: held[2]!.fence }]), 5_000);
    for (const lease of held) await isStillHeld(lease);
    expect(sent).toContain('recall');
    expect(sent).not.toContain('renew');
    await held[0]!.release();
    await other;
  });
});

describe('A lease that is brought back behind its own release', () => {
  it('is released again, so that its lock is free for those who wait', async () => {
    const store = makeRedisStore(server.url, 'a', { recoveryMs: RECOVERY_MS });
    await store.open();
    const request = acquireRequest({ key: 'k', id: 'a.1', leaseMs: 30_000 });
    const { mode, fence, fences, trustedUntil, memory } = granted(await store.acquire(request));
    await flush();
    await eventually(() => expect(store.recovery.recoversForMs).toBeGreaterThan(0));
    const held: HeldLease = { state: 'held', mode, grant: { fence, fences }, options: {}, trustedUntil, memory, minHoldUntil: 0 };
    const renewed = store.renew({ ...request, held });
    await new Promise<void>((resolve) => process.nextTick(resolve)); // It has left.
    // In a Cluster a request is sent again after a lost node or a moved slot, and the release overtakes it.
    Object.assign(held, { state: 'released' });
    expect(await renewed).toMatchObject({ kind: 'renewed' });
    await eventually(async () => expect((await store.inspect('k')).holders).toEqual([]));
  });
});

describe('A Redis that remembers', () => {
  it('tells a holder from whom an operator took the lock that it is lost, also when the message got lost', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    await servesAll(a);
    const held = await a.acquire('k');
    // What an operator's force-release does, without its message.
    await server.command('DEL', ...((await server.command('KEYS', '{lock:*}:l:k')) as string[]));
    await expect(held.renew()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect((await b.acquire('k')).fence).toBeGreaterThan(held.fence);
  });

  it('and was restarted with its data keeps every lease, and makes everybody wait who has none', async () => {
    const recoveryMs = 3_000;
    const [a, b] = [await openLocks('a', { recoveryMs }), await openLocks('b', { recoveryMs })];
    await servesAll(a);
    const held = await a.acquire('k');
    await server.restart({ keepData: true });
    expect(await firstAnswer(b, 'k')).toBe('recovering');
    await isStillHeld(held);
    expect(await held.release()).toBe('released');
    expect((await b.acquire('k')).fence).toBeGreaterThan(held.fence);
  });
});

describe('A Redis that recovers', () => {
  it('names nobody as holder of a lock that it keeps for those who may bring it back, and nobody as leader', async () => {
    const store = makeRedisStore(server.url, 'a', { recoveryMs: 3_000 });
    const locks = new LockService({ store, process: 'a' });
    await locks.open();
    const [holder, waiter] = ['a.1', 'a.2'].map((id) => acquireRequest({ key: 'leader:indexer', id }));
    granted(await store.acquire(holder!));
    expect((await store.acquire(waiter!)).kind).toBe('waiting');
    const fenceKey = keys.spotOf(holder!.key).fenceKey;
    const record = String(await server.command('GET', fenceKey));
    await server.command('SET', fenceKey, record.replace(/ \w{16}:/, ` ${'0'.repeat(15)}1:`));
    expect(await store.release(holder!)).toBe('released');
    expect((await store.acquire(waiter!)).kind).toBe('waiting');
    expect(await store.inspect(holder!.key)).toMatchObject({ mode: null, holders: [], waiters: [{ id: 'a.2' }] });
    expect(await locks.leader('indexer')).toBeNull();
    expect(await locks.isLocked(holder!.key)).toBe(false);
  });
});

describe('A process with a new connection', () => {
  it('does not ask with what it knew on the connection before: a server with an older state grants nothing at once', async () => {
    const locks = await openLocks('a');
    await servesAll(locks);
    // All fences that this process has seen are in what the server loads: nothing but its run id tells that it was another.
    const seen = await locks.withLock('k', async (lease) => lease.fence);
    await server.command('SAVE');
    await server.kill();
    const asked = firstAnswer(locks, 'k');
    await server.start();
    expect(await asked).toBe('recovering');
    expect((await locks.acquire('k')).fence).toBeGreaterThan(seen);
  });

  it('has a master that another one had replaced grant nothing at once, because it may not have followed that one', async () => {
    const locks = await openLocks('a');
    await servesAll(locks);
    for (const master of [['127.0.0.1', '1'], ['NO', 'ONE']]) await server.command('REPLICAOF', ...master);
    await disconnect();
    expect(await firstAnswer(locks, 'k')).toBe('recovering');
  });

  it('recalls the memories of the server when it is connected and when it hears messages again, and renews what it holds once', async () => {
    const locks = await openLocks('a');
    await servesAll(locks);
    const held = await Promise.all(['one', 'two', 'three'].map((key) => locks.acquire(key)));
    const sent = await scriptsSent();
    await disconnect();
    await eventually(() => expect(sent).toContain('recall'), 5_000);
    await eventually(() => expect(sent.filter((name) => name === 'recall')).toHaveLength(2), 5_000);
    await eventually(() => expect(sent).toContain('renew'), 5_000);
    expect(sent.indexOf('recall')).toBeLessThan(sent.indexOf('renew'));
    expect(sent.filter((name) => name === 'renew')).toHaveLength(1);
    for (const lease of held) await isStillHeld(lease);
  });
});

const LEASE_MS = 60_000;
/** Long before the leases in the snapshot end, and long after a recovery. */
const SOON_MS = 15_000;

/** A process on a Redis that goes back to a state with holders who had released their locks, and with tickets that were used. */
const openLong = (process: string): Promise<LockService> => openLocks(process, { recoveryMs: 500 }, { leaseMs: LEASE_MS, waitMs: SOON_MS });

describe('What a process has released is free after its Redis', () => {
  it('was killed and restarted with an older snapshot', async () => {
    const [a, b] = [await openLong('a'), await openLong('b')];
    const held = [await a.acquire('k'), await a.acquire('r', { mode: 'read' }), await a.acquire(['m', 'n'])];
    await server.command('SAVE');
    for (const lease of held) expect(await lease.release()).toBe('released');
    await server.kill();
    await server.restart({ keepData: true });
    for (const key of ['k', 'r', 'm', 'n']) expect((await b.acquire(key)).fence).toBeGreaterThan(0);
  });

  it('loaded an older snapshot while it ran', async () => {
    const [a, b] = [await openLong('a'), await openLong('b')];
    const held = await a.acquire('k');
    await server.command('SAVE');
    await held.release();
    await server.command('DEBUG', 'RELOAD', 'NOSAVE');
    await eventually(async () => expect((await b.inspect('k')).holders).toEqual([]), SOON_MS);
    expect((await b.acquire('k')).fence).toBeGreaterThan(held.fence);
  });

  it('was restarted with a snapshot from before a hand-over inside the process, and what is held stays held', async () => {
    const [a, b] = [await openLong('a'), await openLong('b')];
    const first = await a.acquire('k', { minHoldMs: 1 });
    const next = a.acquire('k', { minHoldMs: 1 });
    await server.command('SAVE');
    await first.release();
    const held = await next;
    await server.kill();
    await server.restart({ keepData: true });
    await eventually(async () => expect((await b.inspect('k')).holders).toMatchObject([{ fence: held.fence }]), SOON_MS);
    expect(await held.verify()).toBe(true);
  });
});

describe('A ticket that was adopted before its Redis was restarted with an older snapshot', () => {
  it.each([{ permits: 1 }, { mode: 'read' }, { owner: 'job-7' }] as const)('is not adopted again beside the hold that was made of it (%j)', async (options) => {
    const [a, b, c] = [await openLong('a'), await openLong('b'), await openLong('c')];
    const ticket = await (await a.acquire('k', options)).handOff({ withinMs: LEASE_MS });
    await server.command('SAVE');
    const adopted = await b.adopt(ticket);
    await server.kill();
    await server.restart({ keepData: true });
    await expect(c.adopt(ticket)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect(await adopted.verify()).toBe(true);
    expect((await c.inspect('k')).holders).toMatchObject([{ fence: adopted.fence }]);
  });
});

describe('A lock whose holder cannot reach the server that forgot it', () => {
  const proxy = forEachTest(() => startFlakyProxy(server.port), closeStores);
  /** A lock of the same slot group as 'k'. */
  const LIKE_K = Array.from({ length: 10_000 }, (_, n) => `k${n}`).find((key) => keys.groupOf(key) === keys.groupOf('k'))!;
  const open = (process: string, url?: string): Promise<LockService> => openLocks(process, { recoveryMs: 100 }, { leaseMs: 20_000 }, url);
  it('is granted to nobody who waited for it or was refused it, and stays that of its holder, who brings it back long after the recovery', async () => {
    const [holder, waiter, refused, stranger] = [await open('holder', proxy.url), await open('waiter'), await open('refused'), await open('new')];
    const lease = await holder.acquire('k');
    let granted = 0;
    const waited = waiter.acquire('k');
    void waited.then(() => (granted += 1));
    await eventually(async () => expect((await waiter.inspect('k')).waiters).toHaveLength(1));
    expect(await refused.tryAcquire('k')).toBeNull();
    await proxy.cut();
    await server.command('FLUSHALL');
    // The recovery is over when the server grants another lock of this slot group to somebody new.
    await eventually(async () => expect((await waiter.inspect('k')).waiters).toHaveLength(1), 10_000);
    await eventually(async () => void (await stranger.acquire('another', { waitMs: 0 })), 10_000);
    await eventually(async () => expect(await refused.tryAcquire('k')).toBeNull(), 10_000);
    expect(granted).toBe(0);
    await proxy.heal();
    await eventually(async () => expect((await waiter.inspect('k')).holders).toMatchObject([{ fence: lease.fence }]), 20_000);
    lease.assertHeld();
    expect([granted, await lease.release()]).toEqual([0, 'released']);
    expect((await waited).fence).toBeGreaterThan(lease.fence);
  }, 60_000);

  it('is granted to nobody whose place a promoted replica kept that had not heard of the grant', async () => {
    const [before, holder, waiter, stranger] = [await open('before'), await open('holder', proxy.url), await open('waiter'), await open('new')];
    const { lockKey, queueKey, fenceKey } = keys.spotOf('k');
    const client = server.client();
    const first = await before.acquire('k');
    const next = holder.acquire('k');
    await eventually(async () => expect((await before.inspect('k')).waiters).toHaveLength(1));
    const waited = waiter.acquire('k');
    let granted = 0;
    void waited.then(() => (granted += 1));
    await eventually(async () => expect((await before.inspect('k')).waiters).toHaveLength(2));
    const [record, places] = [await client.dumpBuffer(lockKey), await client.dumpBuffer(queueKey)];
    const placeOf = async (): Promise<string> => Object.entries(await client.hgetall(queueKey)).find(([field]) => field.startsWith('@waiter'))?.[1] ?? '';
    await first.release();
    const lease = await next;
    const heardOf = async (): Promise<void> => {
      const place = await placeOf();
      await eventually(async () => expect(await placeOf()).not.toBe(place));
    };
    await heardOf();
    await proxy.cut();
    await client.restore(lockKey, 0, record, 'REPLACE');
    await client.restore(queueKey, 0, places, 'REPLACE');
    await client.set(fenceKey, (await client.get(fenceKey))!.replace(/ .{8}/, ' 00000000'));
    await eventually(async () => void (await stranger.acquire(LIKE_K, { waitMs: 0 })), 10_000);
    await eventually(async () => expect((await stranger.inspect('k')).holders).toEqual([]), 10_000);
    await heardOf();
    expect(granted).toBe(0);
    await proxy.heal();
    await eventually(async () => expect((await waiter.inspect('k')).holders).toMatchObject([{ fence: lease.fence }]), 20_000);
    expect([granted, await lease.release()]).toEqual([0, 'released']);
    expect((await waited).fence).toBeGreaterThan(lease.fence);
  }, 60_000);

  it('is granted to nobody who was refused it before and asks again only when the recovery is over', async () => {
    const [holder, refused] = [await open('holder', proxy.url), await open('refused')];
    const lease = await holder.acquire('k');
    expect(await refused.tryAcquire('k')).toBeNull();
    await proxy.cut();
    await server.command('FLUSHALL');
    // It knows the new memory of the slot group when it was granted another lock of it.
    await eventually(async () => void (await (await refused.acquire(LIKE_K, { waitMs: 0 })).release()), 10_000);
    expect(await refused.tryAcquire('k')).toBeNull();
    await proxy.heal();
    await eventually(async () => expect((await refused.inspect('k')).holders).toMatchObject([{ fence: lease.fence }]), 20_000);
    lease.assertHeld();
    expect(await lease.release()).toBe('released');
    await (await refused.acquire('k', { waitMs: 0 })).release();
  }, 60_000);
});

describe('A forced release of a lock that was granted by a message', () => {
  it.each([true, false])('is final: its holder is told that it lost the lease, with renew: %s', async (renew) => {
    const [a, b, operator] = [await openLocks('a'), await openLocks('b'), await openLocks('operator')];
    const first = await a.acquire('k');
    const waiting = b.acquire('k', { renew });
    await eventually(async () => expect((await operator.inspect('k')).waiters).toHaveLength(1));
    await first.release();
    const held = await waiting;
    expect(await operator.forceRelease('k')).toBe(true);
    await eventually(() => expect(held.signal.aborted).toBe(true));
    expect((await operator.inspect('k')).holders).toEqual([]);
    expect(await held.release()).toBe('lost');
  });
});

describe('A message of a grant', () => {
  async function serverNow(): Promise<number> {
    const [seconds, micros] = (await server.command('TIME')) as [string, string];
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  }

  it('that comes when it is known already that the server forgot it makes a lease that is brought back', async () => {
    const [a, b] = [await openRedisStore(server.url, 'a', { recoveryMs: RECOVERY_MS }), await openRedisStore(server.url, 'b', { recoveryMs: RECOVERY_MS })];
    const held = acquireRequest({ key: 'k', id: 'a.1' });
    expect((await a.acquire(held)).kind).toBe('granted');
    const waiting = acquireRequest({ key: 'k', id: 'b.1' });
    expect((await b.acquire(waiting)).kind).toBe('waiting');
    const wakes: Wake[] = [];
    b.onWake((wake) => wakes.push(wake));
    const grantedAt = await serverNow();
    const fence = Number(String(await server.command('GET', keys.spotOf('k').fenceKey)).split(' ')[0]) + 1;
    await server.command('FLUSHALL');
    await eventually(() => expect(b.recovery.recoversForMs).toBeGreaterThan(0));
    // What the server published when it let this waiter in, just before it was flushed.
    await server.command('PUBLISH', keys.channel('b'), `g b.1 ${fence} 1 w ${grantedAt + 1_500} 1500 0 k`);
    await eventually(() => expect(wakes).toContainEqual(expect.objectContaining({ kind: 'granted', id: 'b.1' })));
    const { grant } = wakes.find(({ kind }) => kind === 'granted') as Extract<Wake, { kind: 'granted' }>;
    const { mode, trustedUntil, memory } = grant;
    const lease: HeldLease = { state: 'held', mode, grant: { fence, fences: 1 }, options: {}, trustedUntil, memory, minHoldUntil: 0 };
    expect(await b.renew({ ...waiting, held: lease })).toMatchObject({ kind: 'renewed' });
    expect((await a.inspect('k')).holders).toMatchObject([{ id: 'b.1', fence }]);
  });
});
