/** The contract's second part: how leases end and places are given up, and that a late act never touches the next. */
import { expect } from '@jest/globals';
import { pause } from '../../lib/core/port/clock.js';
import { until, type Contender } from './contender.js';
import type { Promised, Stage } from './lock-store.contract.js';

export function endsLeases(stage: Stage, promised: Promised): void {
  const { clock } = stage;
  const three = (key: string): [Contender, Contender, Contender] => [stage.contender(key), stage.contender(key), stage.contender(key)];

  /** A holder whose lease has ended and whose lock another one holds by now. */
  const replaced = async (): Promise<{ old: Contender; next: Contender }> => {
    const key = stage.newKey();
    const [old, next] = [stage.contender(key), stage.contender(key)];
    await old.acquires({ leaseMs: 150 });
    await until(clock, async () => (await next.ask({ queue: false })).kind === 'granted', 'the lease ends');
    return { old, next };
  };

  promised(['P4'], 'a second release is harmless', async () => {
    const key = stage.newKey();
    const [first, second] = [stage.contender(key), stage.contender(key)];
    await first.acquires();
    expect(await first.release()).toBe('released');
    expect(await first.release()).toBe('lost');
    await second.acquires();
    expect(await first.release()).toBe('lost');
    expect((await second.inspect()).holders).toHaveLength(1);
    await second.release();
  });

  promised(['P4', 'queue'], 'a cancelled waiter is out of the queue at once, and the next one is let in', async () => {
    const [holder, leaver, stayer] = three(stage.newKey());
    await holder.acquires();
    await leaver.queues();
    await stayer.queues();
    expect(await leaver.release()).toBe('released');
    expect((await holder.inspect()).waiters.map(({ id }) => id)).toEqual([stayer.id]);
    await holder.release();
    await stayer.isLetIn();
    await stayer.release();
  });

  promised(['P4', 'queue'], 'a cancel that races its own grant leaves nothing behind', async () => {
    for (let round = 0; round < 50; round++) {
      const key = stage.newKey();
      const [holder, leaver] = [stage.contender(key), stage.contender(key)];
      await holder.acquires();
      await leaver.queues();
      const acts = [() => holder.release(), () => leaver.release()];
      await Promise.all((round % 2 === 0 ? acts : acts.reverse()).map((act) => act()));
      expect(await holder.inspect()).toMatchObject({ mode: null, holders: [], waiters: [] });
    }
  });

  promised(['P4', 'queue'], 'a request that replaces a hold gives it to who waits, and queues behind', async () => {
    const [holder, waiter, successor] = three(stage.newKey());
    const { fence } = await holder.acquires();
    await waiter.queues();
    await successor.queues({ replaces: holder.id });
    expect((await waiter.isLetIn()).fence).toBeGreaterThan(fence);
    expect(await holder.release()).toBe('lost');
    await waiter.release();
    await successor.isLetIn();
    await successor.release();
  });

  promised(['P4', 'P2'], 'a request that replaces a hold for which nobody waits is granted at once, with a greater fence', async () => {
    const [holder, , successor] = three(stage.newKey());
    const { fence } = await holder.acquires();
    const outcome = await successor.ask({ replaces: holder.id });
    expect(outcome.replacedLost ?? false).toBe(false);
    expect(outcome.kind === 'granted' && outcome.grant.fence).toBeGreaterThan(fence);
    expect((await successor.inspect()).holders.map(({ id }) => id)).toEqual([successor.id]);
    await successor.release();
  });

  promised(['P4', 'P2'], 'a request that replaces a hold is told when the store no longer knew it, on a free lock and on a busy one', async () => {
    const key = stage.newKey();
    // Of one process, which knows what it replaces.
    const [holder, , next, , successor] = [1, 2, 3, 4, 5].map(() => stage.contender(key));
    await holder!.acquires();
    await holder!.store.forceRelease(key);
    const { kind, replacedLost } = await next!.ask({ replaces: holder!.id, fences: 16 });
    expect({ kind, replacedLost }).toEqual({ kind: 'granted', replacedLost: true });
    expect((await successor!.ask({ replaces: holder!.id })).replacedLost).toBe(true);
    expect((await successor!.ask({ replaces: next!.id, fences: 16 })).replacedLost ?? false).toBe(false);
    await successor!.release();
  });

  promised(['P5'], 'renewals keep a lease for longer than its length', async () => {
    const key = stage.newKey();
    const [holder, other] = [stage.contender(key), stage.contender(key)];
    // Long enough for a machine that lets nobody run for a second.
    const leaseMs = 1_500;
    let { trustedUntil } = await holder.acquires({ leaseMs });
    const end = clock.now() + 1.5 * leaseMs;
    while (clock.now() < end) {
      await pause(clock, leaseMs / 6);
      await other.isRefused();
      const renewed = await holder.renews(leaseMs);
      expect(renewed.trustedUntil).toBeGreaterThan(trustedUntil);
      trustedUntil = renewed.trustedUntil;
    }
    expect(await holder.release()).toBe('released');
  });

  promised(['P5'], 'a lease that has ended is lost and stays lost, though nobody took the lock', async () => {
    const key = stage.newKey();
    const [late, other] = [stage.contender(key), stage.contender(key)];
    await late.acquires({ leaseMs: 150 });
    await pause(clock, 200);
    expect((await late.renew()).kind).toBe('lost');
    expect(await late.release()).toBe('lost');
    expect((await late.inspect()).mode).toBeNull();
    await other.acquires();
    await other.release();
  });

  promised(['P5'], 'a renewal creates nothing for an id that never held, or released', async () => {
    const [holder, released, stranger] = three(stage.newKey());
    await released.acquires();
    await released.release();
    expect((await released.renew()).kind).toBe('lost');
    expect((await stranger.renew()).kind).toBe('lost');
    expect((await stranger.inspect()).mode).toBeNull();
    await holder.acquires();
    expect((await stranger.renew()).kind).toBe('lost');
    await holder.release();
  });

  promised(['P5', 'queue'], 'a renewal makes no holder of a waiter', async () => {
    const [holder, waiter] = three(stage.newKey());
    await holder.acquires();
    await waiter.queues();
    expect((await waiter.renew()).kind).toBe('lost');
    expect((await waiter.inspect()).holders.map(({ id }) => id)).toEqual([holder.id]);
    await waiter.release();
    await holder.release();
  });

  promised(['P5'], 'renewals that come together are answered one by one', async () => {
    const [first, gone, second] = [stage.newKey(), stage.newKey(), stage.newKey()].map((key) => stage.contender(key));
    await first!.acquires();
    await second!.acquires();
    const batch = [first!, gone!, second!].map(({ key, id }) => ({ key, id, leaseMs: 5_000, minReplicas: 0 }));
    const outcomes = await Promise.all(batch.map((one) => first!.store.renew(one)));
    expect(outcomes.map(({ kind }) => kind)).toEqual(['renewed', 'lost', 'renewed']);
    await first!.release();
    await second!.release();
  });

  promised(['P9', 'P5'], 'a shorter renewal does not cut off the trust that was given before', async () => {
    const key = stage.newKey();
    const [holder, other] = [stage.contender(key), stage.contender(key)];
    await holder.acquires({ leaseMs: 5_000 });
    await holder.renews(150);
    await pause(clock, 250);
    await other.isRefused();
    expect(await holder.release()).toBe('released');
  });

  promised(['P6'], "a late release, renewal or downgrade does not touch the next holder's lease", async () => {
    const { old, next } = await replaced();
    const before = await next.inspect();
    expect(await old.release()).toBe('lost');
    expect((await old.renew()).kind).toBe('lost');
    expect(await old.downgrade()).toBe('lost');
    const after = await next.inspect();
    expect(after).toMatchObject({ mode: 'write', holders: [{ id: next.id, fence: before.holders[0]?.fence }] });
    expect((await next.renews()).kind).toBe('renewed');
    await next.release();
  });

  promised(['P6'], 'a request that replaces a hold long over does not touch the next holder', async () => {
    const { old, next } = await replaced();
    const successor = stage.contender(old.key);
    expect(await successor.ask({ queue: false, replaces: old.id })).toMatchObject({ kind: 'busy', replacedLost: true });
    expect((await next.inspect()).holders.map(({ id }) => id)).toEqual([next.id]);
    await next.release();
  });

  promised(['minHold'], 'a lock stays taken for minHoldMs after an early release, and nobody holds it', async () => {
    const key = stage.newKey();
    const [job, other] = [stage.contender(key), stage.contender(key)];
    const asked = clock.now();
    await job.acquires({ minHoldMs: 600, leaseMs: 5_000 });
    expect(await job.release()).toBe('released');
    expect(await job.release()).toBe('lost');
    expect((await job.renew()).kind).toBe('lost');
    await other.isRefused();
    await until(clock, async () => (await other.ask({ queue: false })).kind === 'granted', 'minHoldMs passes');
    expect(clock.now() - asked).toBeGreaterThanOrEqual(600);
    await other.release();
  });

  promised(['minHold', 'P10', 'queue'], 'who is next in line is woken by an early release, and is told then when the rest of minHoldMs has passed', async () => {
    const key = stage.newKey();
    const [job, waiter] = [stage.contender(key), stage.contender(key)];
    await job.acquires({ minHoldMs: 800, leaseMs: 5_000 });
    await waiter.queues();
    await job.release();
    await waiter.isWoken(['ask']);
    const answer = await waiter.ask();
    expect(answer).toMatchObject({ kind: 'waiting' });
    expect(answer.kind === 'waiting' && answer.askAgainInMs).toBeLessThanOrEqual(801);
    await waiter.release();
  });

  promised(['minHold', 'P10', 'queue'], 'who is next in line is woken by the last reader that leaves, when an earlier one still owes a part of its minHoldMs', async () => {
    const key = stage.newKey();
    const [owing, last, waiter] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    await owing.acquires({ mode: 'read', minHoldMs: 800 });
    await last.acquires({ mode: 'read' });
    await owing.release();
    await waiter.queues();
    await last.release();
    await waiter.isWoken(['ask']);
    await waiter.release();
  });

  promised(['minHold', 'P2', 'queue'], 'a request that replaces what its own id was granted, because no work can begin under that, owes no minHoldMs for it', async () => {
    const holder = stage.contender(stage.newKey());
    const { fence } = await holder.acquires({ minHoldMs: 3_000 });
    const again = await holder.acquires({ minHoldMs: 3_000, replaces: holder.id });
    expect(again.fence).toBeGreaterThan(fence);
    expect((await holder.inspect()).holders.map(({ id, fence: shown }) => [id, shown])).toEqual([[holder.id, again.fence]]);
    expect(await holder.abandon()).toBe('released');
    expect((await holder.inspect()).mode).toBeNull();
  });

  promised(['minHold', 'P5'], 'a lease shorter than minHoldMs leaves the lock taken all the same', async () => {
    const key = stage.newKey();
    const [job, other] = [stage.contender(key), stage.contender(key)];
    const asked = clock.now();
    await job.acquires({ minHoldMs: 700, leaseMs: 200 });
    await until(clock, async () => (await other.ask({ queue: false })).kind === 'granted', 'minHoldMs passes');
    expect(clock.now() - asked).toBeGreaterThanOrEqual(700);
    await other.release();
  });

  promised(['minHold'], 'of readers that owe it one is left in the lock, however many there were, and it keeps the lock taken for the longest of them', async () => {
    const key = stage.newKey();
    const readers = [30_000, 20_000, 25_000, 30].map((minHoldMs) => ({ reader: stage.contender(key), minHoldMs }));
    for (const { reader, minHoldMs } of readers) await reader.acquires({ mode: 'read', minHoldMs });
    for (const { reader } of readers) expect(await reader.release()).toBe('released');
    const { holders } = await stage.contender(key).inspect();
    expect(holders.map(({ id }) => id)).toEqual([readers[0]!.reader.id]);
    await stage.contender(key).isRefused();
  });

  promised(['minHold', 'P13', 'owner'], 'an owner whose hold is over does not get into what is left of its minHoldMs', async () => {
    const key = stage.newKey();
    const [job, again] = [stage.contender(key), stage.contender(key)];
    await job.acquires({ minHoldMs: 400, owner: 'nightly' });
    await job.release();
    await again.isRefused({ owner: 'nightly' });
  });

  promised(['minHold', 'P4'], 'a hold that is abandoned before its work began owes no minHoldMs', async () => {
    const key = stage.newKey();
    const [job, other] = [stage.contender(key), stage.contender(key)];
    await job.acquires({ minHoldMs: 20_000 });
    expect(await job.abandon()).toBe('released');
    await other.acquires();
    expect(await job.abandon()).toBe('lost');
    expect((await other.inspect()).holders.map(({ id }) => id)).toEqual([other.id]);
    await other.release();
  });

  promised(['minHold', 'P1'], 'a request that is refused leaves nothing behind of its minHoldMs', async () => {
    const key = stage.newKey();
    const rivals = Array.from({ length: 6 }, () => stage.contender(key));
    // All at once: where votes are split, each rival takes some nodes and has to give them back.
    const outcomes = await Promise.all(rivals.map((rival) => rival.ask({ queue: false, minHoldMs: 20_000 })));
    for (const [at, { kind }] of outcomes.entries()) if (kind === 'granted') await rivals[at]!.abandon();
    await stage.contender(key).getsIn().then(() => stage.stores()[0].forceRelease(key));
  });

  promised(['minHold', 'P6'], 'to abandon a hold late does not cut off what it owes of its minHoldMs', async () => {
    const key = stage.newKey();
    const [job, other] = [stage.contender(key), stage.contender(key)];
    await job.acquires({ minHoldMs: 20_000 });
    expect(await job.release()).toBe('released');
    expect(await job.abandon()).toBe('lost');
    await other.isRefused();
    await other.store.forceRelease(key);
  });

  promised(['minHold'], 'a release after minHoldMs frees the lock at once', async () => {
    const key = stage.newKey();
    const [job, other] = [stage.contender(key), stage.contender(key)];
    await job.acquires({ minHoldMs: 100 });
    await pause(clock, 150);
    await job.release();
    await other.acquires();
    await other.release();
  });
}
