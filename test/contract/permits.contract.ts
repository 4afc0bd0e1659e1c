/** The contract's part about permits: locks that a number of requests hold at a time. */
import { expect } from '@jest/globals';
import { pause } from '../../lib/core/port/clock.js';
import { until, type Asking, type Contender } from './contender.js';
import type { Promised, Stage } from './lock-store.contract.js';

/** Long enough for a handful of commands to a server that is as slow as the machine. */
const LEASE_MS = 1_000;

export function countsPermits(stage: Stage, promised: Promised): void {
  const { clock } = stage;

  const contenders = (count: number, key = stage.newKey()): readonly Contender[] => Array.from({ length: count }, () => stage.contender(key));

  /** So many contenders of one lock, of which those that find a free permit hold it and the others queue. */
  const contended = async (count: number, how: Asking): Promise<readonly Contender[]> => {
    const all = contenders(count);
    for (const one of all) await one.ask(how);
    return all;
  };

  promised(['P17', 'P1', 'permits'], 'as many hold the lock at a time as there are permits, and no more', async () => {
    const [a, b, c, d] = contenders(4) as [Contender, Contender, Contender, Contender];
    for (const one of [a, b, c]) expect((await one.acquires({ permits: 3 })).mode).toBe('write');
    await d.isRefused({ permits: 3 });
    await stage.expectHolders(a.key, a, b, c);
    await b.release();
    await d.acquires({ permits: 3 });
    await stage.expectHolders(a.key, a, c, d);
    for (const one of [a, c, d]) expect(await one.release()).toBe('released');
  });

  promised(['P17', 'P2', 'permits'], 'each permit has fences of its own, above those of every earlier grant', async () => {
    const [a, b, c] = contenders(3) as [Contender, Contender, Contender];
    const first = await a.acquires({ permits: 2, fences: 5 });
    const second = await b.acquires({ permits: 2 });
    expect(second.fence).toBeGreaterThan(first.fence + 4);
    await a.release();
    expect((await c.acquires({ permits: 2 })).fence).toBeGreaterThan(second.fence);
    for (const one of [b, c]) await one.release();
  });

  promised(['P17', 'P3', 'permits'], 'the same request again gives the same permit and takes no second one', async () => {
    const [a, b] = contenders(2) as [Contender, Contender];
    const first = await a.acquires({ permits: 2 });
    expect((await a.acquires({ permits: 2 })).fence).toBe(first.fence);
    await b.acquires({ permits: 2 });
    for (const one of [a, b]) await one.release();
  });

  promised(['P17', 'P4', 'P7', 'permits'], 'a release lets in the next, in the order in which they came', async () => {
    const [a, b, c, d, e] = await contended(5, { permits: 2 });
    await stage.expectHolders(a!.key, a, b);
    await b!.release();
    await stage.expectHolders(a!.key, a, c);
    await c!.isWoken(['granted', 'ask']);
    await a!.release();
    await stage.expectHolders(a!.key, c, d);
    await d!.isWoken(['granted', 'ask']);
    expect((await e!.askAgain()).kind).toBe('waiting');
    for (const one of [c, d, e]) await one!.release();
  });

  promised(['P17', 'P8', 'permits'], 'permits whose holders crashed come back with the end of their leases, several at a time', async () => {
    const key = stage.newKey();
    const [dead1, dead2, live, next1, next2, last] = contenders(6, key) as Contender[];
    for (const one of [dead1, dead2]) await one!.acquires({ permits: 3, leaseMs: LEASE_MS });
    await live!.acquires({ permits: 3 });
    const { askAgainInMs } = await next1!.queues({ permits: 3 });
    expect(askAgainInMs).toBeGreaterThan(0);
    expect(askAgainInMs).toBeLessThanOrEqual(LEASE_MS + 1);
    for (const one of [next2, last]) expect((await one!.queues({ permits: 3 })).askAgainInMs).toBeUndefined();
    await pause(clock, askAgainInMs!);
    await next1!.isLetIn();
    await next2!.isLetIn();
    await stage.expectHolders(key, live, next1, next2);
    expect((await last!.askAgain()).kind).toBe('waiting');
    for (const one of [live, next1, next2, last]) await one!.release();
  });

  promised(['P17', 'P8', 'permits'], 'a waiter that died does not keep a permit from the next live one', async () => {
    const [a, b, dead, live] = await contended(4, { permits: 2 });
    await until(clock, async () => {
      await live!.askAgain();
      return (await a!.inspect()).waiters.every(({ id }) => id !== dead!.id);
    }, 'the dead waiter has lost its place');
    await a!.release();
    await live!.isLetIn();
    for (const one of [b, live]) await one!.release();
  });

  promised(['P17', 'permits'], 'while somebody holds the lock or waits for it, another number of permits or none is refused, with the number that is in use', async () => {
    const [a, b, other] = contenders(3) as [Contender, Contender, Contender];
    await a.acquires({ permits: 2 });
    for (const how of [{ permits: 3 }, { permits: 1 }, {}, { mode: 'read' }, { owner: '2' }, { permits: 3, queue: false }] as const) {
      expect(await other.ask(how)).toMatchObject({ kind: 'permits', permits: 2 });
    }
    await b.acquires({ permits: 2 });
    expect(await other.ask({ permits: 3 })).toMatchObject({ kind: 'permits', permits: 2 });
    await stage.expectHolders(a.key, a, b);
    for (const one of [a, b]) await one.release();
  });

  promised(['P17', 'permits'], 'a request for a permit of a lock that is held without permits is refused', async () => {
    const [writer, reader, kin, other] = contenders(4) as [Contender, Contender, Contender, Contender];
    await writer.acquires();
    expect(await other.ask({ permits: 2 })).toEqual({ kind: 'permits', permits: undefined });
    await writer.release();
    await reader.acquires({ mode: 'read' });
    expect(await other.ask({ permits: 2 })).toEqual({ kind: 'permits', permits: undefined });
    await reader.release();
    await kin.acquires({ owner: '2' });
    expect(await other.ask({ permits: 2 })).toEqual({ kind: 'permits', permits: undefined });
    await kin.release();
  });

  promised(['P17', 'permits'], 'an idle lock takes any number of permits', async () => {
    const key = stage.newKey();
    for (const how of [{ permits: 2 }, { permits: 3 }, {}, { permits: 1 }, { mode: 'read' }] as const) {
      const [one] = contenders(1, key) as [Contender];
      await one.acquires(how);
      await one.release();
    }
    const [crashed, waiter] = contenders(2, key) as [Contender, Contender];
    await crashed.acquires({ permits: 2, leaseMs: LEASE_MS });
    await until(clock, async () => (await waiter.ask({ permits: 5, queue: false })).kind === 'granted', 'the lock is idle again');
    expect((await waiter.inspect()).permits).toBe(5);
    await waiter.release();
  });

  promised(['P17', 'minHold', 'permits'], 'a permit stays taken for what is left of its minHoldMs, and the others are free', async () => {
    const [a, b, c] = contenders(3) as [Contender, Contender, Contender];
    const since = clock.now();
    await a.acquires({ permits: 2, minHoldMs: 2 * LEASE_MS });
    await a.release();
    await b.acquires({ permits: 2 });
    await until(clock, async () => (await c.ask({ permits: 2, queue: false })).kind === 'granted', 'minHoldMs has passed');
    expect(clock.now() - since).toBeGreaterThanOrEqual(2 * LEASE_MS);
    for (const one of [b, c]) await one.release();
  });

  promised(['P17', 'P15', 'permits'], 'a permit whose lease ended stays taken for its grace, and the others are free', async () => {
    const [paused, b, c] = contenders(3) as [Contender, Contender, Contender];
    const since = clock.now();
    await paused.acquires({ permits: 2, leaseMs: LEASE_MS, graceMs: LEASE_MS });
    await b.acquires({ permits: 2 });
    await until(clock, async () => (await c.ask({ permits: 2, queue: false })).kind === 'granted', 'the grace ends');
    expect(clock.now() - since).toBeGreaterThanOrEqual(2 * LEASE_MS);
    for (const one of [b, c]) await one.release();
  });

  promised(['P17', 'P5', 'P6', 'permits'], 'a renewal and a late release concern one permit only', async () => {
    const [a, b, c] = contenders(3) as [Contender, Contender, Contender];
    await a.acquires({ permits: 2, leaseMs: LEASE_MS });
    await b.acquires({ permits: 2, leaseMs: LEASE_MS });
    await b.renews();
    await until(clock, async () => (await c.ask({ permits: 2, queue: false })).kind === 'granted', 'the lease of a has ended');
    expect((await a.renew()).kind).toBe('lost');
    expect(await a.release()).toBe('lost');
    await stage.expectHolders(a.key, b, c);
    for (const one of [b, c]) expect(await one.release()).toBe('released');
  });

  promised(['P17', 'permits'], 'a permit that is given back with the next request for one goes to whoever has waited longer', async () => {
    const [a, b, waiter, next] = contenders(4) as [Contender, Contender, Contender, Contender];
    for (const one of [a, b]) await one.acquires({ permits: 2 });
    await waiter.queues({ permits: 2 });
    expect((await next.ask({ permits: 2, replaces: a.id })).kind).toBe('waiting');
    await waiter.isLetIn();
    await stage.expectHolders(a.key, b, waiter);
    for (const one of [b, waiter, next]) await one.release();
  });

  promised(['P17', 'P2', 'permits'], 'a permit that is handed on goes to the request that replaces its lease before those who wait, with a higher fence', async () => {
    const [a, b, waiter, next, other] = contenders(5) as [Contender, Contender, Contender, Contender, Contender];
    for (const one of [a, b]) await one.acquires({ permits: 2 });
    await waiter.queues({ permits: 2 });
    const granted = await next.ask({ permits: 2, replaces: a.id, handsOn: true });
    expect(granted).toMatchObject({ kind: 'granted', grant: { contended: true } });
    expect((await next.ask({ permits: 2, replaces: a.id, handsOn: true }))).toMatchObject({ kind: 'granted', replacedLost: true });
    await stage.expectHolders(a.key, b, next);
    expect((await waiter.askAgain()).kind).toBe('waiting');
    expect((await other.ask({ permits: 2, replaces: b.id })).kind).toBe('waiting');
    expect((await waiter.isLetIn()).fence).toBeGreaterThan(granted.kind === 'granted' ? granted.grant.fence : Infinity);
    for (const one of [waiter, next, other]) await one.release();
  });

  promised(['P17', 'P5', 'permits'], 'a permit whose lease has ended is not handed on: whoever waits gets it', async () => {
    const [a, b, waiter, next] = contenders(4) as [Contender, Contender, Contender, Contender];
    await a.acquires({ permits: 2, leaseMs: LEASE_MS });
    await b.acquires({ permits: 2 });
    await waiter.queues({ permits: 2 });
    await until(clock, async () => (await a.inspect()).holders.every(({ id }) => id !== a.id), 'the lease of a has ended');
    expect(await next.ask({ permits: 2, replaces: a.id, handsOn: true })).toMatchObject({ kind: 'waiting', replacedLost: true });
    await waiter.isLetIn();
    for (const one of [b, waiter, next]) await one.release();
  });

  promised(['P17', 'minHold', 'permits'], 'a permit that owes a minHoldMs is not handed on before it has passed', async () => {
    const [a, b, next] = contenders(3) as [Contender, Contender, Contender];
    await a.acquires({ permits: 2, minHoldMs: 2 * LEASE_MS });
    await b.acquires({ permits: 2 });
    expect((await next.ask({ permits: 2, replaces: a.id, handsOn: true })).kind).toBe('waiting');
    for (const one of [b, next]) await one.release();
  });

  promised(['P17', 'forceRelease', 'permits'], 'an operator takes one permit by its fence, or all of them', async () => {
    const [a, b, waiter] = contenders(3) as [Contender, Contender, Contender];
    await a.acquires({ permits: 2 });
    const { fence } = await b.acquires({ permits: 2, fences: 10 });
    await waiter.queues({ permits: 2 });
    expect(await a.store.forceRelease(a.key, fence + 1)).toBe(false);
    expect(await a.store.forceRelease(a.key, fence)).toBe(true);
    expect((await b.isWoken(['lost'])).kind).toBe('lost');
    await waiter.isLetIn();
    await stage.expectHolders(a.key, a, waiter);
    expect(await a.store.forceRelease(a.key)).toBe(true);
    await stage.expectHolders(a.key);
  });

  promised(['P17', 'inspect', 'list', 'permits'], 'the state of a lock tells its permits, who has them, and who waits', async () => {
    const [a, b, waiter] = await contended(3, { permits: 2, label: 'Mail.send' });
    const state = await a!.inspect();
    expect(state).toMatchObject({ mode: 'write', permits: 2, waiters: [{ id: waiter!.id, mode: 'write', label: 'Mail.send' }] });
    expect(state.holders.map(({ id, label, owner }) => ({ id, label, owner }))).toEqual([a, b].map((one) => ({ id: one!.id, label: 'Mail.send', owner: undefined })));
    for await (const one of a!.store.list({ startsWith: a!.key })) if (one.key === a!.key) expect(one).toMatchObject({ permits: 2 });
    for (const one of [a, b, waiter]) await one!.release();
    expect((await a!.inspect()).permits).toBeUndefined();
  });

  promised(['P17', 'P10', 'permits'], 'the holders hear that somebody waits for a permit', async () => {
    const [a, waiter] = contenders(2) as [Contender, Contender];
    expect((await a.acquires({ permits: 1 })).contended).toBe(false);
    await waiter.queues({ permits: 1 });
    await a.isWoken(['contended']);
    expect((await a.renews()).contended).toBe(true);
    for (const one of [a, waiter]) await one.release();
  });
}
