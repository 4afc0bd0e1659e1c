/** Waiters whose processes are gone or stand still, on a real server: nobody listens on their channels, or they are silent. */
import { afterEach, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { acquireCall, releaseCall } from '../../lib/stores/wire/lua.generated.js';
import { UNKNOWN_MEMORY } from '../../lib/stores/wire/redis-keys.js';
import { type AcquireArguments, acquireArguments, type LuaLock, LuaServer } from '../support/lua-server.js';
import { forAll } from '../support/started.js';

const listeners: Redis[] = [];
const lua = forAll(() => LuaServer.start());
afterEach(async () => {
  for (const listener of listeners.splice(0)) await listener.quit();
});

async function listens(process: string): Promise<Redis> {
  const listener = lua.server.client();
  listeners.push(listener);
  await listener.subscribe(`{lock}:c:${process}`);
  return listener;
}

/** A lock that `holder.1` has and these wait for, in this order. */
async function waitedFor(key: string, ids: readonly string[], how: AcquireArguments = {}): Promise<LuaLock> {
  const lock = lua.lock(key);
  await lock.takes('holder.1');
  await Promise.all(ids.map((id) => lock.acquire(id, { needsListener: true, ...how })));
  return lock;
}

const waiters = async (lock: LuaLock): Promise<unknown[]> => {
  const [, count, ...fields] = (await lock.inspect()) as (string | number)[];
  return fields.slice(6 * Number(count)).filter((_, at) => at % 3 === 0);
};

describe('A waiter for which nobody listens', () => {
  it('is passed over by the next that is heard, and keeps its place before all others', async () => {
    const lock = await waitedFor('n1', ['gone.1', 'gone.2', 'live.1', 'live.2']);
    await listens('live');
    await lock.release('holder.1');
    expect(await lock.holders()).toEqual(['live.1']);
    expect(await waiters(lock)).toEqual(['gone.1', 'gone.2', 'live.2']);
  });

  it('has its turn when it is heard of again, before those behind it, whether or not anybody listens by then', async () => {
    const lock = await waitedFor('n2', ['deaf.1', 'live.1', 'live.2']);
    await listens('live');
    await lock.release('holder.1');
    expect(((await lock.acquire('deaf.1')) as number[])[0]).toBe(2);
    await lock.release('live.1');
    expect(await lock.holders()).toEqual(['deaf.1']);
  });

  it('is granted the lock all the same when nobody listens at all, so that no free lock is left to nobody', async () => {
    const lock = await waitedFor('n4', ['deaf.1', 'deaf.2']);
    await lock.release('holder.1');
    expect(await lock.holders()).toEqual(['deaf.1']);
  });

  it('is told by its own question that the lock is free', async () => {
    const lock = lua.lock('n5');
    const { grantedAt } = await lock.takes('holder.1', { leaseMs: 100 });
    for (const id of ['deaf.1', 'live.1']) await lock.acquire(id, { needsListener: true });
    await listens('live');
    await lua.past(grantedAt + 100);
    expect(((await lock.acquire('deaf.1')) as number[])[0]).toBe(1);
  });

  it('does not keep readers from each other when it wants to write', async () => {
    const lock = lua.lock('n6');
    await lock.takes('holder.1', { mode: 'r' });
    await lock.acquire('gone.1', { needsListener: true });
    expect(await lock.holders()).toEqual(['holder.1']);
    await lock.takes('live.1', { mode: 'r', needsListener: true });
    expect(await lock.holders()).toEqual(['holder.1', 'live.1']);
    await lock.acquire('gone.1');
    expect(((await lock.acquire('live.2', { mode: 'r', needsListener: true })) as number[])[0]).toBe(2);
  });

  it('is not let in with the readers that enter together, which others would wait for', async () => {
    const lock = lua.lock('n7');
    await lock.takes('holder.1');
    for (const id of ['gone.1', 'live.1', 'gone.2', 'live.2']) await lock.acquire(id, { mode: 'r', needsListener: true });
    await listens('live');
    await lock.release('holder.1');
    expect(await lock.holders()).toEqual(['live.1', 'live.2']);
    expect(await waiters(lock)).toEqual(['gone.1', 'gone.2']);
  });

  it('is looked at with at most 99 others in one script: then the first of them has its turn', async () => {
    const gone = Array.from({ length: 100 }, (_, n) => `gone.${n}`);
    const lock = await waitedFor('n8', [...gone, 'live.1']);
    await listens('live');
    await lock.release('holder.1');
    expect(await lock.holders()).toEqual(['gone.0']);
  });

  it('is passed over on a server whose memory is full', async () => {
    const lock = await waitedFor('n9', ['gone.1', 'live.1']);
    await listens('live');
    const released = releaseCall(lock, { id: 'holder.1', mayBeOver: true, floor: 0, abandoned: false, recoveryMs: 0, known: UNKNOWN_MEMORY });
    expect(await lua.whenFull(released)).toEqual([1]);
    expect(await lock.holders()).toEqual(['live.1']);
  });

  it('has its turn where processes cannot tell who listens, as on a Cluster, while it is heard of', async () => {
    const lock = await waitedFor('n10', ['elsewhere.1', 'live.1'], { needsListener: false });
    await listens('live');
    await lock.release('holder.1');
    expect(await lock.holders()).toEqual(['elsewhere.1']);
  });
});

describe.each([true, false])('A waiter that was not heard of for 1.2 s, where processes can tell who listens: %s', (needsListener) => {
  /** A lock that `holder.1` has until the waiter `still.1` is silent; `live.1` behind it has just been heard of. */
  async function silentBeside(key: string): Promise<LuaLock> {
    const lock = lua.lock(key);
    await lock.takes('holder.1');
    for (const process of ['still', 'live']) await listens(process);
    const [, heardAt] = (await lock.acquire('still.1', { needsListener })) as [number, number];
    await Promise.all(['live.1', 'live.2'].map((id) => lock.acquire(id, { needsListener })));
    await lua.past(heardAt + 1_250);
    for (const id of ['live.1', 'live.2']) expect(((await lock.acquire(id)) as number[])[0]).toBe(2);
    return lock;
  }

  it('is passed over by the next that was heard of, and has the next turn when it is heard of again', async () => {
    const lock = await silentBeside(`s1:${needsListener}`);
    await lock.release('holder.1');
    expect(await lock.holders()).toEqual(['live.1']);
    expect(await waiters(lock)).toEqual(['still.1', 'live.2']);
    expect(((await lock.acquire('still.1')) as number[])[0]).toBe(2);
    await lock.release('live.1');
    expect(await lock.holders()).toEqual(['still.1']);
  });

  it('has its turn when nobody else waits', async () => {
    const lock = await silentBeside(`s2:${needsListener}`);
    for (const id of ['live.1', 'live.2', 'holder.1']) await lock.release(id);
    expect(await lock.holders()).toEqual(['still.1']);
  });

  it('does not lose its turn twice, however long it is silent after it was heard of', async () => {
    const lock = await silentBeside(`s3:${needsListener}`);
    await lock.release('holder.1');
    const [, heardAt] = (await lock.acquire('still.1')) as [number, number];
    await lua.past(heardAt + 1_250);
    expect(((await lock.acquire('live.2')) as number[])[0]).toBe(2);
    await lock.release('live.1');
    expect(await lock.holders()).toEqual(['still.1']);
  });
});

/** Makes a waiter one that was last heard of too long ago. */
async function fallSilent(lock: LuaLock, id: string): Promise<void> {
  const record = (await lua.client.hget(lock.queueKey, `@${id}`)) as string;
  await lua.client.hset(lock.queueKey, `@${id}`, `${(await lua.now()) - 1}${record.slice(13)}`);
}

describe('A waiter that asks again', () => {
  it('has a new place, behind the others, when it lost its own by its silence', async () => {
    const lock = lua.lock('h3');
    for (const id of ['p.0', 'p.1', 'p.2']) await lock.acquire(id);
    await fallSilent(lock, 'p.1');
    expect(((await lock.acquire('p.1')) as number[])[0]).toBe(2);
    expect(await waiters(lock)).toEqual(['p.2', 'p.1']);
  });

  it('keeps its place on a server whose memory is full, and is let in when it is next', async () => {
    const lock = lua.lock('h7');
    for (const id of ['p.0', 'p.1', 'p.2']) await lock.acquire(id);
    const released = releaseCall(lock, { id: 'p.0', mayBeOver: true, floor: 0, abandoned: false, recoveryMs: 0, known: UNKNOWN_MEMORY });
    const [again, next] = ['p.2', 'p.1'].map((id) => acquireCall(lock, acquireArguments(id)));
    const [waits, code, letIn] = await lua.whenFull(again!, released, next!);
    expect([waits, code, (letIn as number[])[0]]).toEqual([[2, expect.any(Number), -1, '-'], 1, 1]);
  });

  it('has a new place when its waiter lease ended later than one can: the clock was set back', async () => {
    const lock = lua.lock('h8');
    for (const id of ['p.0', 'p.1', 'p.2']) await lock.acquire(id);
    const record = (await lua.client.hget(lock.queueKey, '@p.1')) as string;
    await lua.client.hset(lock.queueKey, '@p.1', `${Number(record.slice(0, 13)) + 3_600_000}${record.slice(13)}`);
    expect(((await lock.acquire('p.1')) as number[])[0]).toBe(2);
    expect(await waiters(lock)).toEqual(['p.2', 'p.1']);
  });
});
