/** The contract's fourth part: what it takes to wait. How waiters hear of their turn, and what a silent one costs. */
import { expect } from '@jest/globals';
import { pause } from '../../lib/core/port/clock.js';
import { until, type Contender } from './contender.js';
import type { Promised, Stage } from './lock-store.contract.js';

export function keepsWaiters(stage: Stage, promised: Promised): void {
  const { clock } = stage;

  promised(['P8', 'queue'], 'a silent waiter loses its place, one that is heard of keeps it', async () => {
    const key = stage.newKey();
    const [holder, silent, heard] = await stage.line(key, 'write', 'write', 'write');
    const limit = clock.now() + 10_000;
    while ((await holder!.inspect()).waiters.length > 1) {
      expect((await heard!.askAgain()).kind).toBe('waiting');
      await holder!.renews();
      if (clock.now() > limit) throw new Error('the silent waiter still has its place');
      await pause(clock, 100);
    }
    expect((await silent!.askAgain()).kind).toBe('waiting');
    expect((await holder!.inspect()).waiters.map(({ id }) => id)).toEqual([heard!.id, silent!.id]);
    for (const one of [holder, silent]) await one!.release();
    await heard!.isLetIn();
    await heard!.release();
  });

  promised(['P8', 'queue'], 'a silent reader loses its place like a writer', async () => {
    const key = stage.newKey();
    const [holder, silent, heard] = await stage.line(key, 'write', 'read', 'read');
    const limit = clock.now() + 10_000;
    // Nothing is asked of the silent one's place but to be looked at.
    while ((await heard!.inspect()).waiters.length > 1) {
      if (clock.now() > limit) throw new Error('the silent reader still has its place');
      await heard!.askAgain();
      await pause(clock, 100);
    }
    await holder!.release();
    await stage.expectHolders(key, heard);
    expect(await silent!.release()).toBe('lost');
    await heard!.release();
  });

  promised(['P8', 'P7', 'queue'], 'readers queued behind a writer that fell silent are let in beside the present readers', async () => {
    const key = stage.newKey();
    const [present, , behind] = await stage.line(key, 'read', 'write', 'read');
    await behind!.isLetIn(10_000);
    await stage.expectHolders(key, present, behind);
    await present!.release();
    await behind!.release();
  });

  promised(['P8', 'P9', 'queue'], 'a grant to a waiter is short until its first renewal', async () => {
    const key = stage.newKey();
    const [holder, live, dead, last] = [1, 2, 3, 4].map(() => stage.contender(key));
    await holder!.acquires();
    for (const waiter of [live, dead, last]) await waiter!.queues({ leaseMs: 30_000 });
    await holder!.release();
    expect((await live!.isLetIn()).trustedUntil).toBeLessThanOrEqual(clock.now() + 2_000);
    expect((await live!.renews(30_000)).trustedUntil).toBeGreaterThan(clock.now() + 20_000);
    await live!.release();
    // Nobody renews the dead one's grant, and the next is let in long before 30 s.
    await last!.isLetIn(6_000);
    expect((await dead!.renew()).kind).toBe('lost');
    await last!.release();
  });

  promised(['P8', 'minHold', 'queue'], 'a dead waiter with minHoldMs delays the next no longer than one without; a live one owes it from its first renewal on', async () => {
    const key = stage.newKey();
    const [holder, dead, live, last] = [1, 2, 3, 4].map(() => stage.contender(key));
    await holder!.acquires();
    for (const waiter of [dead, live]) await waiter!.queues({ minHoldMs: 20_000 });
    await holder!.release();
    // Longer than the lease that it asks for: the end is that of minHoldMs.
    await live!.isLetIn(6_000);
    await live!.renews(1_000);
    expect(await live!.release()).toBe('released');
    expect((await last!.inspect()).holders[0]?.remainingMs).toBeGreaterThan(15_000);
    await last!.isRefused();
    await last!.store.forceRelease(key);
  });

  promised(['P10', 'queue'], 'a release wakes the next in line, who need not ask', async () => {
    const key = stage.newKey();
    const [holder, first, second] = await stage.line(key, 'write', 'write', 'write');
    await holder!.release();
    const wake = await first!.isWoken(['granted', 'ask']);
    const grant = wake.kind === 'granted' ? wake.grant : await first!.acquires();
    expect(grant).toMatchObject({ mode: 'write', fences: 1, contended: true });
    expect(grant.trustedUntil).toBeGreaterThan(clock.now());
    await second!.release();
    await first!.release();
  });

  promised(['P10', 'queue'], 'who asks again is told of its grant even if the wake was lost', async () => {
    const key = stage.newKey();
    const [holder, waiter] = [stage.contender(key), stage.contender(key)];
    const { fence } = await holder.acquires();
    await waiter.queues({ fences: 5 });
    await holder.release();
    const outcome = await waiter.askAgain();
    expect(outcome).toMatchObject({ kind: 'granted', grant: { fences: 5, mode: 'write', contended: false } });
    expect(outcome.kind === 'granted' && outcome.grant.fence).toBeGreaterThan(fence);
    await waiter.release();
  });

  promised(['P10', 'queue'], 'a holder is told when the first waiter comes, and by every answer while somebody waits', async () => {
    const key = stage.newKey();
    const [holder, waiter] = [stage.contender(key), stage.contender(key)];
    expect((await holder.acquires()).contended).toBe(false);
    expect((await holder.renews()).contended).toBe(false);
    await waiter.queues();
    await holder.isWoken(['contended']);
    expect((await holder.renews()).contended).toBe(true);
    expect((await holder.acquires()).contended).toBe(true);
    await waiter.release();
    expect((await holder.renews()).contended).toBe(false);
    await holder.release();
  });

  promised(['P10', 'queue'], 'the first in line is told when the lease ends, asks then, and is let in', async () => {
    const key = stage.newKey();
    const [silent, first, second] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    await silent.acquires({ leaseMs: 1_500 });
    const { askAgainInMs } = await first.queues();
    expect((await second.queues()).askAgainInMs).toBeUndefined();
    expect(askAgainInMs).toBeGreaterThan(0);
    expect(askAgainInMs).toBeLessThanOrEqual(1_502);
    await pause(clock, askAgainInMs!);
    await first.acquires();
    expect((await second.askAgain()).kind).toBe('waiting');
    await second.release();
    await first.release();
  });

  promised(['P10', 'queue'], 'of readers and writers that wait, the one whose phase is next is first in line', async () => {
    const key = stage.newKey();
    const [holder, writer, reader] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    await holder.acquires();
    expect((await writer.queues()).askAgainInMs).toBeGreaterThan(0);
    expect((await reader.queues({ mode: 'read' })).askAgainInMs).toBeGreaterThan(0);
    expect(await writer.askAgain()).toEqual({ kind: 'waiting' });
    await holder.downgrade();
    expect(await writer.askAgain()).toMatchObject({ kind: 'waiting', askAgainInMs: expect.any(Number) });
    for (const contender of [holder, reader, writer]) await contender.release();
  });

  promised(['P10', 'queue'], 'a writer behind readers is told when the last of their leases ends', async () => {
    const key = stage.newKey();
    const [short, long, last, writer] = [1, 2, 3, 4].map(() => stage.contender(key));
    await short!.acquires({ mode: 'read', leaseMs: 1_000 });
    await long!.acquires({ mode: 'read', leaseMs: 20_000 });
    await last!.acquires({ mode: 'read', leaseMs: 1_000 });
    expect((await writer!.queues()).askAgainInMs).toBeGreaterThan(10_000);
    for (const contender of [short, long, last, writer]) await contender!.release();
  });

  promised(['P7', 'P10', 'queue'], 'a queue behind a holder that crashed is served by any command that comes by', async () => {
    const key = stage.newKey();
    const [crashed, waiter, passer] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    await crashed.acquires({ leaseMs: 1_000 });
    await waiter.queues();
    const passBy = async (): Promise<boolean> => {
      await passer.isRefused();
      return (await passer.inspect()).holders[0]?.id === waiter.id;
    };
    await until(clock, passBy, 'the waiter is let in');
    await waiter.release();
  });

  promised(['P7', 'P8', 'queue'], 'a queue of hundreds is served in order and leaves nothing', async () => {
    const key = stage.newKey();
    const holder = stage.contender(key);
    await holder.acquires();
    const waiters = Array.from({ length: 200 }, () => stage.contender(key));
    /** Nobody's place ends meanwhile, however slow the store is. */
    const keepPlaces = async (some: readonly Contender[]): Promise<void> => {
      await Promise.all(some.map((waiter) => waiter.askAgain()));
    };
    for (const [n, waiter] of waiters.entries()) {
      await waiter.queues();
      if (n % 50 === 0) await keepPlaces(waiters.slice(0, n));
    }
    const fences = [];
    await holder.release();
    for (const [n, waiter] of waiters.entries()) {
      if (n % 50 === 0) await keepPlaces(waiters.slice(n));
      const outcome = await waiter.askAgain();
      fences.push(outcome.kind === 'granted' ? outcome.grant.fence : outcome.kind);
      await waiter.release();
    }
    expect(fences).toEqual([...fences].sort((one, other) => Number(one) - Number(other)));
    expect(fences).toEqual(expect.not.arrayContaining(['waiting']));
    expect((await holder.inspect()).mode).toBeNull();
  });
}
