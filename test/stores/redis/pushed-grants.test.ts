/** Grants that are pushed: messages that race their own answers, and fences of a server that lost its memory. */
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { AcquireRequest, Wake, HolderRef } from '../../../lib/core/port/lock-store.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import type { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import { WakeChannel } from '../../../lib/stores/wire/wake-channel.js';
import { acquireRequest, granted, newId } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy } from '../../support/flaky-proxy.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';

let a: RedisStore;
let b: RedisStore;
let wakes: Map<string, Wake>;

const server = forAll(startRedis);
beforeEach(async () => {
  a = await openRedisStore(server.url, 'a');
  b = await openRedisStore(server.url, 'b');
  wakes = new Map();
  b.onWake((wake) => wakes.set(wake.id, wake));
});
afterEach(async () => {
  await closeStores();
  await server.command('FLUSHALL');
});

const request = (process: string, key: string): AcquireRequest => acquireRequest({ key, id: newId(process) });

describe('a message', () => {
  it('that overtakes the answer to its request is not lost', async () => {
    for (let round = 0; round < 200; round++) {
      const held = request('a', `race:${round}`);
      const waiting = request('b', held.key);
      await a.acquire(held);
      const [outcome] = await Promise.all([b.acquire(waiting), a.release(held)]);
      // It does not ask again: the answer or the message has to tell.
      if (outcome.kind === 'waiting') await eventually(() => expect(wakes.get(waiting.id)?.kind).toBe('granted'), 1_000);
      else expect(outcome.kind).toBe('granted');
      expect(await b.release(waiting)).toBe('released');
    }
  });

  it('after which the lease is as long on our clock as the server gave it, less the margin', async () => {
    const held = request('a', 'k');
    const waiting = request('b', 'k');
    await a.acquire(held);
    await b.acquire(waiting);
    await a.release(held);
    await eventually(() => expect(wakes.has(waiting.id)).toBe(true));
    const wake = wakes.get(waiting.id) as Extract<Wake, { kind: 'granted' }>;
    const left = wake.grant.trustedUntil - performance.now();
    const [holder] = (await b.inspect('k')).holders;
    expect(left).toBeLessThan(1_500 - 15);
    expect(left).toBeGreaterThan(1_200);
    expect(wake.grant.trustedUntil).toBeLessThan(performance.now() + holder!.remainingMs);
    expect(wake.grant.fence).toBe(holder!.fence);
  });

  it('to somebody who has gone names the key as it was written, so that the grant can be given back', async () => {
    const key = 'wallet:{7} 50%\n\u0085';
    const held = request('a', key);
    const gone = request('b', key);
    await a.acquire(held);
    // Asked for over the connections of another process, so that its own knows no such place.
    await a.acquire(gone);
    await a.release(held);
    await eventually(() => expect(wakes.get(gone.id)).toEqual({ kind: 'stray', key, id: gone.id }));
    expect(await b.release(gone)).toBe('released');
  });

  it('of a grant that no replica has yet makes the waiter ask that wants one', async () => {
    const held = request('a', 'k');
    const waiting = { ...request('b', 'k'), minReplicas: 1 };
    const missed = jest.spyOn(WakeChannel.prototype, 'missed');
    await a.acquire(held);
    expect((await b.acquire(waiting)).kind).toBe('waiting');
    await a.release(held);
    await eventually(() => expect(wakes.get(waiting.id)).toEqual({ kind: 'ask', key: 'k', id: waiting.id }));
    // No replica answers here. The connection on which the message came is not taken for one that is deaf.
    await expect(b.acquire({ ...waiting, notAfter: performance.now() + 500 })).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect(missed).not.toHaveBeenCalled();
    await b.release(waiting);
  });

  it('for a waiter that was released meanwhile says nothing', async () => {
    const held = request('a', 'k');
    const waiting = request('b', 'k');
    const next = request('b', 'k');
    await a.acquire(held);
    await b.acquire(waiting);
    await b.acquire(next);
    await Promise.all([b.release(waiting), a.release(held)]);
    await eventually(() => expect(wakes.get(next.id)?.kind).toBe('granted'));
    expect(wakes.has(waiting.id)).toBe(false);
  });
});

describe('a master that was replaced', () => {
  it('is not listened to any more: it would grant what the new master gave to somebody else', async () => {
    const next = await startRedis();
    const proxy = await startFlakyProxy(server.port);
    const moved = await openRedisStore(proxy.url, 'm');
    moved.onWake((wake) => wakes.set(wake.id, wake));
    const held = request('a', 'k');
    const waiting = request('m', 'k');
    const channel = new RedisKeys('lock').channel('m');
    await a.acquire(held);
    expect((await moved.acquire(waiting)).kind).toBe('waiting');

    const elsewhere = await openRedisStore(next.url, 'e');
    await elsewhere.acquire(request('e', 'k'));
    proxy.moveTo(next.port);
    await server.command('CLIENT', 'KILL', 'TYPE', 'normal');
    await eventually(async () => expect((await moved.acquire(waiting)).kind).toBe('waiting'));
    await eventually(async () => expect(await next.command('PUBSUB', 'NUMSUB', channel)).toEqual([channel, 1]));
    wakes.clear();

    await eventually(async () => expect(await a.release(held)).toBe('released'));
    expect((await a.inspect('k')).holders).toMatchObject([{ id: waiting.id }]);
    expect(wakes.get(waiting.id)?.kind).not.toBe('granted');
    await closeStores();
    await proxy.stop();
    await next.stop();
  });
});

describe('a server that lost its fences and whose clock is behind', () => {
  const keys = new RedisKeys('lock');
  const group = keys.groupOf('k');

  /** Makes a process see a fence of the group that is an hour ahead, and the server forget it. */
  async function seeFenceFromTheFuture(store = b, process = 'b'): Promise<number> {
    await server.command('SET', keys.fence(group), 1_000 * (Date.now() + 3_600_000));
    const seen = request(process, 'k');
    const { fence } = granted(await store.acquire(seen));
    await store.release(seen);
    await server.command('DEL', keys.fence(group));
    return fence;
  }

  /** Puts the last fence back behind the memory that everybody knows, and releases for a process that has seen none of the fences. */
  async function releaseWithFencesPutBack(held: HolderRef): Promise<void> {
    const stranger = await openRedisStore(server.url, 's');
    const [, memory] = String(await server.command('GET', keys.fence(group))).split(' ');
    await server.command('SET', keys.fence(group), `${1_000 * Date.now()} ${memory}`);
    await stranger.release(held);
  }

  it('is told the floor by whoever asks', async () => {
    const seen = await seeFenceFromTheFuture();
    expect(granted(await b.acquire(request('b', 'k'))).fence).toBeGreaterThan(seen);
  });

  it.each(['message', 'answer'])('has its grant to a waiter refused when the %s comes, and the next one has a fence that rises', async (told) => {
    const seen = await seeFenceFromTheFuture();
    const held = request('a', 'k');
    await a.acquire(held);
    const waiting = request('b', 'k');
    expect((await b.acquire(waiting)).kind).toBe('waiting');
    await releaseWithFencesPutBack(held);
    if (told === 'message') await eventually(() => expect(wakes.get(waiting.id)).toEqual({ kind: 'ask', key: 'k', id: waiting.id }));
    expect(granted(await b.acquire(waiting)).fence).toBeGreaterThan(seen);
    expect((await b.inspect('k')).holders).toHaveLength(1);
  });

  it('has its grant refused as well when the message overtakes the answer that gave the place', async () => {
    const proxy = await startFlakyProxy(server.port);
    const late = await openRedisStore(proxy.url, 'l');
    late.onWake((wake) => wakes.set(`${wake.id} ${wake.kind}`, wake));
    const seen = await seeFenceFromTheFuture(late, 'l');
    const [held, waiting, next] = [request('a', 'k'), request('l', 'k'), request('a', 'k')];
    await a.acquire(held);
    proxy.freezeAnswers();
    const outcome = late.acquire(waiting);
    await eventually(async () => expect((await a.inspect('k')).waiters).toHaveLength(1));
    await releaseWithFencesPutBack(held);
    // The message that somebody waits comes behind that of the grant.
    await a.acquire(next);
    await eventually(() => expect(wakes.has(`${waiting.id} contended`)).toBe(true));
    proxy.thaw();
    expect((await outcome).kind).toBe('waiting');
    await a.release(next);
    await eventually(() => expect(wakes.get(`${waiting.id} granted`)).toMatchObject({ grant: { fence: expect.any(Number) } }));
    const { grant } = wakes.get(`${waiting.id} granted`) as Extract<Wake, { kind: 'granted' }>;
    expect(grant.fence).toBeGreaterThan(seen);
    await closeStores();
    await proxy.stop();
  });

  it('knows who refused its grant and has to wait once more: the next grant is held against what was seen as well', async () => {
    await seeFenceFromTheFuture();
    const [held, next, waiting] = [request('a', 'k'), request('a', 'k'), request('b', 'k')];
    await a.acquire(held);
    await b.acquire(waiting);
    await a.acquire(next);
    await releaseWithFencesPutBack(held);
    await eventually(() => expect(wakes.get(waiting.id)?.kind).toBe('ask'));
    expect((await b.acquire(waiting)).kind).toBe('waiting');
    await a.release(next);
    await eventually(() => expect(wakes.get(waiting.id)?.kind).toBe('granted'));
  });
});
