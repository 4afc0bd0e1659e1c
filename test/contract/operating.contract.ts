/** The contract's last part: what an operator sees and does, and that idle locks are forgotten. */
import { expect } from '@jest/globals';
import type { LockState } from '../../lib/core/port/lock-state.js';
import { until, type Contender } from './contender.js';
import type { Promised, Stage } from './lock-store.contract.js';

export function servesOperators(stage: Stage, promised: Promised): void {
  const { clock } = stage;
  const listed = async (startsWith?: string): Promise<Map<string, LockState>> => {
    const states = new Map<string, LockState>();
    for await (const state of stage.stores()[1].list({ startsWith })) states.set(state.key, state);
    return states;
  };
  const endAll = async (contenders: readonly Contender[]): Promise<void> => {
    for (const contender of contenders) await contender.release();
  };
  const threeOf = (key: string): [Contender, Contender, Contender] => [stage.contender(key), stage.contender(key), stage.contender(key)];

  promised(['inspect'], 'a lock nobody holds is told as free', async () => {
    const key = stage.newKey();
    expect(await stage.stores()[0].inspect(key)).toEqual({ key, mode: null, holders: [], waiters: [] });
  });

  promised(['inspect'], 'a holder is told with its fence, owner, label and the time that is left', async () => {
    const holder = stage.contender(stage.newKey());
    const { fence } = await holder.acquires({ mode: 'read', owner: 'saga:7', label: 'Orders.pay', leaseMs: 3_000 });
    const { mode, holders, waiters } = await holder.inspect();
    expect({ mode, waiters }).toEqual({ mode: 'read', waiters: [] });
    expect(holders).toMatchObject([{ id: holder.id, fence, owner: 'saga:7', label: 'Orders.pay' }]);
    expect(holders[0]?.remainingMs).toBeGreaterThan(0);
    expect(holders[0]?.remainingMs).toBeLessThanOrEqual(3_000);
    await holder.release();
  });

  promised(['inspect', 'queue'], 'waiters are told in the order in which they will be served', async () => {
    const key = stage.newKey();
    const [holder, first, early, second, late] = [1, 2, 3, 4, 5].map(() => stage.contender(key));
    const ids = async (): Promise<string[]> => (await holder!.inspect()).waiters.map(({ id }) => id);
    await holder!.acquires();
    await first!.queues({ label: 'Prices.set' });
    await early!.queues({ mode: 'read' });
    await second!.queues();
    await late!.queues({ mode: 'read' });
    expect(await ids()).toEqual([early, late, first, second].map((waiter) => waiter!.id));
    expect((await holder!.inspect()).waiters[2]).toMatchObject({ id: first!.id, mode: 'write', label: 'Prices.set' });
    await holder!.release();
    expect(await ids()).toEqual([first, second].map((waiter) => waiter!.id));
    await endAll([early!, late!, first!, second!]);
  });

  promised(['inspect'], 'a holder or waiter whose time is over is told no more, though nothing but looks was done', async () => {
    const key = stage.newKey();
    const [holder, writer, reader, brief] = [key, key, key, stage.newKey()].map((name) => stage.contender(name));
    await holder!.acquires({ leaseMs: 20_000 });
    // A store without a queue refuses, and has nothing to forget.
    await writer!.ask();
    await reader!.ask({ mode: 'read' });
    await brief!.acquires({ leaseMs: 200 });
    await until(clock, async () => (await brief!.inspect()).mode === null, 'the holder is told no more');
    await until(clock, async () => (await holder!.inspect()).waiters.length === 0, 'the waiters are told no more');
    expect((await holder!.inspect()).holders).toHaveLength(1);
    await holder!.release();
  });

  promised(['inspect'], 'keys and owners with any character in them come back as they were', async () => {
    const key = `${stage.newKey()}:ünï "quoted" [x] * ? \\ %7B<0> {a}\n\u0085%`;
    const holder = stage.contender(key);
    await holder.acquires({ owner: 'sågå "7"' });
    await stage.contender(key).isRefused();
    expect(await holder.inspect()).toMatchObject({ key, holders: [{ id: holder.id, owner: 'sågå "7"' }] });
    for (const start of [key, key.slice(0, -1), key.slice(0, -2), key.slice(0, key.indexOf('{') + 1)]) {
      expect([...(await listed(start)).keys()]).toEqual([key]);
    }
    expect(await holder.release()).toBe('released');
  });

  promised(['list'], 'every lock that is held is listed, and only those that begin as asked', async () => {
    const holders = Array.from({ length: 25 }, () => stage.contender(`listed:${stage.newKey()}`));
    const other = stage.contender(stage.newKey());
    for (const holder of [...holders, other]) await holder.acquires();
    const found = await listed('listed:');
    expect([...found.keys()].sort()).toEqual(holders.map(({ key }) => key).sort());
    expect(found.get(holders[3]!.key)).toMatchObject({ mode: 'write', holders: [{ id: holders[3]!.id }] });
    expect((await listed()).has(other.key)).toBe(true);
    await endAll([...holders, other]);
    expect((await listed('listed:')).size).toBe(0);
  });

  promised(['forceRelease'], 'an operator takes a lock away from its holder, who is told and cannot renew', async () => {
    const key = stage.newKey();
    const [holder, next] = [stage.contender(key), stage.contender(key)];
    const { fence } = await holder.acquires();
    expect(await next.store.forceRelease(key, fence)).toBe(true);
    await holder.isWoken(['lost']);
    expect((await holder.renew()).kind).toBe('lost');
    expect((await next.acquires()).fence).toBeGreaterThan(fence);
    await next.release();
  });

  promised(['forceRelease'], 'a forced release touches only the holder with the given fence, or nobody', async () => {
    const [first, second, free] = threeOf(stage.newKey());
    const { fence } = await first.acquires({ mode: 'read' });
    await second.acquires({ mode: 'read' });
    expect(await free.store.forceRelease(free.key, fence - 1)).toBe(false);
    expect(await free.store.forceRelease(free.key, fence)).toBe(true);
    expect((await free.inspect()).holders.map(({ id }) => id)).toEqual([second.id]);
    expect(await free.store.forceRelease(free.key)).toBe(true);
    expect(await free.store.forceRelease(free.key)).toBe(false);
    expect((await free.inspect()).mode).toBeNull();
  });

  promised(['forceRelease', 'P2'], 'any fence that a holder was granted names it', async () => {
    const holder = stage.contender(stage.newKey());
    const { fence, fences } = await holder.acquires({ fences: 10 });
    expect(await holder.store.forceRelease(holder.key, fence + fences)).toBe(false);
    expect(await holder.store.forceRelease(holder.key, fence + fences - 1)).toBe(true);
    expect((await holder.inspect()).mode).toBeNull();
  });

  promised(['forceRelease', 'queue'], 'a forced release lets in who waits', async () => {
    const [holder, waiter] = threeOf(stage.newKey());
    await holder.acquires();
    await waiter.queues();
    expect(await waiter.store.forceRelease(waiter.key)).toBe(true);
    await waiter.isLetIn();
    await waiter.release();
  });

  promised(['inspect'], 'a trial shows that locks can be had, any number of them at a time, and leaves nothing', async () => {
    const [store, other] = stage.stores();
    const before = await stage.leftovers();
    await Promise.all([store.tryOut(), store.tryOut(), other.tryOut()]);
    // The nodes of a Redlock that are slower than a quorum are done a little later.
    await until(clock, async () => (await stage.leftovers()) <= before, 'the trials have left nothing');
  });

  promised(['P12'], 'a thousand keys that were locked and released leave nothing behind', async () => {
    for (let batch = 0; batch < 10; batch++) {
      const holders = Array.from({ length: 100 }, () => stage.contender(stage.newKey()));
      await Promise.all(holders.map((holder, number) => holder.acquires({ mode: number % 2 === 0 ? 'read' : 'write' })));
      expect(await stage.leftovers()).toBeGreaterThanOrEqual(100);
      await Promise.all(holders.map((holder) => holder.release()));
    }
    await until(clock, async () => (await listed()).size === 0, 'no lock is listed, not even one of the tests before in its grace');
  });

  promised(['P12'], 'nothing is left of all these tests, not even of leases that nobody released', async () => {
    const silent = [stage.contender(stage.newKey()), stage.contender(stage.newKey())];
    await silent[0]!.acquires({ leaseMs: 200 });
    await silent[1]!.acquires({ leaseMs: 200, minHoldMs: 300 });
    await silent[1]!.release();
    expect(await stage.leftovers()).toBeGreaterThanOrEqual(2);
    await until(clock, async () => (await stage.leftovers()) === 0, 'the store forgets every lock');
  });
}
