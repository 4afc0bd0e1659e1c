/** What only the embedded store promises, beside the contract: its own clock, no timers when idle, no replicas. */
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { MAX_HOLDS_OF_OWNER, type Wake } from '../../../lib/core/port/lock-store.js';
import { MemoryStore } from '../../../lib/stores/memory/memory-store.js';
import { Contender } from '../../contract/contender.js';
import { FakeClock } from '../../support/fake-clock.js';

describe('The embedded store', () => {
  let clock: FakeClock;
  let store: MemoryStore;
  let wakes: Wake[];
  let count: number;
  const contender = (key = 'order:1'): Contender => new Contender(store, key, `a.${++count}`, clock);

  beforeEach(() => {
    clock = new FakeClock();
    store = new MemoryStore(clock);
    [wakes, count] = [[], 0];
    store.onWake((wake) => wakes.push(wake));
  });
  afterEach(() => store.close());

  it('does not call a lock held that only has waiters, and lists it all the same', async () => {
    const [holder, next] = [contender(), contender()];
    await holder.acquires({ leaseMs: 1_000 });
    await next.queues();
    // Before the store's own timer has looked at it.
    clock.block(1_001);
    expect(await store.inspect('order:1')).toMatchObject({ mode: null, holders: [], waiters: [{ id: next.id }] });
    const listed = [];
    for await (const { key } of store.list()) listed.push(key);
    expect(listed).toEqual(['order:1']);
    clock.block(2_500);
    for await (const { key } of store.list()) throw new Error(`${key} is listed`);
  });

  it('lets an owner read in as many holds as there may be', async () => {
    for (let n = 0; n < MAX_HOLDS_OF_OWNER; n += 1) await contender().acquires({ mode: 'read', owner: 'o' });
    expect(await contender().ask({ mode: 'read', owner: 'o' })).toEqual({ kind: 'full' });
  });

  it('trusts a lease to its last instant, and lets the next in right after', async () => {
    const [holder, next] = [contender(), contender()];
    const { trustedUntil } = await holder.acquires({ leaseMs: 1_000 });
    expect(trustedUntil).toBe(clock.now() + 1_000);
    expect(await next.ask({ queue: false })).toEqual({ kind: 'busy', retryInMs: 1_001 });
    await clock.advance(1_000);
    await next.isRefused();
    expect((await holder.renews(1_000)).trustedUntil).toBe(clock.now() + 1_000);
    await clock.advance(1_001);
    await next.acquires();
    expect(await holder.release()).toBe('lost');
  });

  it('has no timer while nothing is locked, and one however much is locked', async () => {
    const holders = Array.from({ length: 50 }, (_, number) => contender(`order:${number}`));
    for (const holder of holders) await holder.acquires();
    expect(clock.pendingTimers).toBe(1);
    for (const holder of holders) await holder.release();
    expect(clock.pendingTimers).toBe(0);
    expect(store.size).toBe(0);
  });

  it('keeps a lock for the whole of a minHoldMs that outlives its release, without a command', async () => {
    const job = contender();
    await job.acquires({ minHoldMs: 10_000 });
    await job.release();
    await clock.advance(9_999);
    await contender().isRefused();
    await clock.advance(2_000);
    expect(store.size).toBe(0);
  });

  it('serves a queue behind a lease that ended even if nobody asks', async () => {
    const [silent, waiter] = [contender(), contender()];
    await silent.acquires({ leaseMs: 500 });
    await waiter.queues();
    await clock.advance(1_000);
    expect(wakes).toMatchObject([{ kind: 'contended', id: silent.id }, { kind: 'granted', id: waiter.id, grant: { contended: false } }]);
  });

  it('wakes in a later turn, never in the middle of a command', async () => {
    const [holder, waiter] = [contender(), contender()];
    await holder.acquires();
    const asked = waiter.queues();
    expect(wakes).toEqual([]);
    await asked;
    await contender().queues();
    await clock.settle();
    expect(wakes).toEqual([{ kind: 'contended', key: 'order:1', id: holder.id }]);
  });

  it('gives fences that grow with the wall clock, so that they go on rising after a restart of the process', async () => {
    const { fence } = await contender().acquires();
    expect(fence).toBe(clock.wallNow() * 1_000);
    await clock.advance(60_000);
    const restarted = new MemoryStore(clock);
    const next = new Contender(restarted, 'order:1', 'b.1', clock);
    expect((await next.acquires()).fence).toBeGreaterThan(fence);
    await restarted.close();
  });

  it('gives rising fences although the wall clock is set back', async () => {
    const [first, second] = [contender(), contender()];
    const { fence } = await first.acquires();
    await first.release();
    clock.stepWall(-3_600_000);
    expect((await second.acquires()).fence).toBe(fence + 1);
  });

  it('refuses what it cannot keep: replicas, and requests after it was closed', async () => {
    await expect(contender().ask({ minReplicas: 1 })).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false });
    const holder = contender();
    await holder.acquires();
    await contender('order:2').acquires();
    await store.close();
    expect(clock.pendingTimers).toBe(0);
    await expect(contender().ask()).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false });
    expect([await holder.release(), clock.pendingTimers]).toEqual(['released', 0]);
  });

  it('wakes nobody after it was closed, and nobody when nobody listens', async () => {
    await contender().acquires();
    await contender().queues();
    await store.close();
    await clock.settle();
    expect(wakes.map(({ kind }) => kind)).toEqual(['contended']);
    const [unheard, mute] = [new MemoryStore(clock), new MemoryStore(clock)];
    mute.onWake((wake) => wakes.push(wake));
    for (const one of [unheard, mute]) {
      await new Contender(one, 'order:1', 'b.1', clock).acquires();
      const asked = new Contender(one, 'order:1', 'b.2', clock).queues();
      await one.close();
      await asked;
    }
    await clock.settle();
    expect(wakes).toHaveLength(1);
  });

  it('forgets each lease that nobody released, one after another, when it has ended and with few timers', async () => {
    const setTimer = jest.spyOn(clock, 'setTimer');
    for (let round = 0; round < 2; round += 1) {
      setTimer.mockClear();
      await contender().acquires({ leaseMs: 400 });
      await clock.advance(999);
      expect(store.size).toBe(1);
      await clock.advance(1);
      expect(store.size).toBe(0);
      const released = contender();
      await released.acquires();
      await released.release();
      await contender('order:2').acquires({ leaseMs: 2_000 });
      await contender().acquires({ leaseMs: 5_000 });
      await clock.advance(5_000);
      expect(store.size).toBe(1);
      await clock.advance(1);
      expect([store.size, clock.pendingTimers]).toEqual([0, 0]);
      expect(setTimer.mock.calls.length).toBeLessThanOrEqual(5);
    }
  });
});
