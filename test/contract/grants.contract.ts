/** The contract's first part: who is granted a lock, with which fence, and how long the grant is trusted. */
import { expect } from '@jest/globals';
import { pause } from '../../lib/core/port/clock.js';
import { until } from './contender.js';
import type { Promised, Stage } from './lock-store.contract.js';

export function grantsLocks(stage: Stage, promised: Promised): void {
  const { clock } = stage;

  promised(['P1', 'P11'], 'a writer excludes writers and readers until it releases', async () => {
    const key = stage.newKey();
    const [writer, other, reader] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    await writer.acquires();
    await other.isRefused();
    await reader.isRefused({ mode: 'read' });
    expect(await writer.release()).toBe('released');
    await other.acquires();
    await other.release();
  });

  promised(['P1'], 'readers hold together and exclude a writer until the last one leaves', async () => {
    const key = stage.newKey();
    const [first, second, writer] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    expect((await first.acquires({ mode: 'read' })).mode).toBe('read');
    expect((await second.acquires({ mode: 'read' })).mode).toBe('read');
    await writer.isRefused();
    await first.release();
    await writer.isRefused();
    await second.release();
    expect((await writer.acquires()).mode).toBe('write');
    await writer.release();
  });

  promised(['P2'], 'each grant has a greater fence than all before, whoever holds it and however', async () => {
    const key = stage.newKey();
    let last = 0;
    for (let turn = 0; turn < 10; turn++) {
      const holder = stage.contender(key);
      const { fence } = await holder.acquires({ mode: turn % 3 === 0 ? 'read' : 'write' });
      expect(Number.isSafeInteger(fence)).toBe(true);
      expect(fence).toBeGreaterThan(last);
      last = fence;
      await holder.release();
    }
  });

  promised(['P2'], 'a grant reserves as many fences as were asked for', async () => {
    const key = stage.newKey();
    const [first, second] = [stage.contender(key), stage.contender(key)];
    const block = await first.acquires({ fences: 1_000 });
    expect(block.fences).toBe(1_000);
    await first.release();
    expect((await second.acquires()).fence).toBeGreaterThanOrEqual(block.fence + 1_000);
    await second.release();
  });

  promised(['P2', 'P9'], 'fences rise over a lease that ended by itself, and nobody is let in while it was trusted', async () => {
    const key = stage.newKey();
    const [silent, next] = [stage.contender(key), stage.contender(key)];
    const asked = clock.now();
    const ended = await silent.acquires({ leaseMs: 300 });
    expect(ended.trustedUntil).toBeGreaterThan(asked);
    expect(ended.trustedUntil).toBeLessThanOrEqual(clock.now() + 300);
    await until(clock, async () => (await next.ask({ queue: false })).kind === 'granted', 'the ended lease makes room');
    expect(clock.now()).toBeGreaterThanOrEqual(ended.trustedUntil);
    // The same request again tells the grant that the condition above got.
    expect((await next.acquires()).fence).toBeGreaterThan(ended.fence);
    await next.release();
  });

  promised(['P3'], 'the same request again is the same grant, and does not lengthen it', async () => {
    const holder = stage.contender(stage.newKey());
    const askedAt = clock.now();
    const first = await holder.acquires({ fences: 7 });
    // The store may have granted it at any time until now, and the end is counted from then.
    const tookMs = clock.now() - askedAt;
    await pause(clock, 300);
    const again = await holder.acquires({ fences: 7 });
    expect(again).toMatchObject({ fence: first.fence, fences: 7, mode: 'write' });
    expect(again.trustedUntil).toBeLessThan(first.trustedUntil + tookMs + 250);
    expect((await holder.inspect()).holders).toHaveLength(1);
    expect(await holder.release()).toBe('released');
    expect((await holder.inspect()).mode).toBeNull();
  });

  promised(['P3', 'P1'], 'one request sent many times at once is one grant', async () => {
    const holder = stage.contender(stage.newKey());
    const grants = await Promise.all(Array.from({ length: 20 }, () => holder.acquires()));
    expect(new Set(grants.map(({ fence }) => fence)).size).toBe(1);
    await holder.release();
    expect((await holder.inspect()).mode).toBeNull();
  });

  promised(['P9'], 'no lease is trusted for longer than it was asked for', async () => {
    const holder = stage.contender(stage.newKey());
    await holder.acquires({ leaseMs: 1_000 });
    const asked = clock.now();
    const { trustedUntil } = await holder.renews(2_000);
    expect(trustedUntil).toBeGreaterThan(asked + 1_000);
    expect(trustedUntil).toBeLessThanOrEqual(clock.now() + 2_000);
    await holder.release();
  });

  promised(['P11'], 'a refusal takes no place and says when asking again makes sense', async () => {
    const key = stage.newKey();
    const [holder, other] = [stage.contender(key), stage.contender(key)];
    await holder.acquires();
    const refusal = await other.ask({ queue: false });
    expect(refusal).toEqual({ kind: 'busy', retryInMs: expect.any(Number) });
    expect(refusal.kind === 'busy' && refusal.retryInMs).toBeGreaterThan(0);
    expect((await holder.inspect()).waiters).toEqual([]);
    await holder.release();
    expect((await holder.inspect()).mode).toBeNull();
  });

  promised(['P14'], 'a request whose time is over does not act', async () => {
    const key = stage.newKey();
    const [early, other, late] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    // So that the process of the late one, like the other, has just heard the store's time.
    for (const holder of [early, other]) {
      await holder.acquires();
      await holder.release();
    }
    await expect(late.ask({ notAfter: clock.now() - 2_000 })).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true });
    expect((await early.inspect()).mode).toBeNull();
  });

  promised(['P13', 'owner'], "an owner's requests share mode and fence, and the lock is taken until the last of them ends", async () => {
    const key = stage.newKey();
    const [first, second, third, stranger] = [1, 2, 3, 4].map(() => stage.contender(key));
    const { fence } = await first!.acquires({ owner: 'saga:7' });
    expect(await second!.acquires({ owner: 'saga:7' })).toMatchObject({ fence, mode: 'write' });
    expect(await third!.acquires({ owner: 'saga:7', mode: 'read' })).toMatchObject({ fence, mode: 'write' });
    expect(await second!.release()).toBe('released');
    await stranger!.isRefused({ owner: 'saga:8' });
    expect(await first!.release()).toBe('released');
    expect((await third!.renews()).kind).toBe('renewed');
    await stranger!.isRefused();
    expect(await third!.release()).toBe('released');
    expect((await stranger!.acquires()).fence).toBeGreaterThan(fence);
    await stranger!.release();
  });

  promised(['P13', 'owner'], 'an owner is told from every other, whatever characters are in the name, and from none', async () => {
    const owners = ['-', 'a b', 'a_b', 'a%20b', 'a\nb', 'a', ' ', '%'];
    for (const owner of [undefined, ...owners]) {
      const key = stage.newKey();
      const holder = stage.contender(key);
      await holder.acquires({ owner });
      for (const other of owners) {
        const request = stage.contender(key);
        if (other === owner) await request.acquires({ owner: other }).then(() => request.release());
        else await request.isRefused({ owner: other });
      }
      await holder.release();
    }
  });

  promised(['P13', 'owner', 'queue'], 'an owner who holds passes the queue', async () => {
    const key = stage.newKey();
    const [first, waiter, second] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    await first.acquires({ owner: 'saga:7' });
    await waiter.queues();
    expect((await second.acquires({ owner: 'saga:7' })).contended).toBe(true);
    await first.release();
    expect((await waiter.askAgain()).kind).toBe('waiting');
    await second.release();
    await waiter.isLetIn();
    await waiter.release();
  });

  promised(['P13', 'owner', 'queue'], 'requests of an owner that queued before it was granted join it as soon as they are heard of', async () => {
    const key = stage.newKey();
    const [holder, stranger, reader, first, second, third] = [1, 2, 3, 4, 5, 6].map(() => stage.contender(key));
    await holder!.acquires();
    await first!.queues({ owner: 'saga:7' });
    await stranger!.queues();
    await second!.queues({ owner: 'saga:7', leaseMs: 20_000 });
    await third!.queues({ owner: 'saga:7', mode: 'write', fences: 5 });
    await holder!.release();
    const { fence } = await first!.isLetIn();
    await reader!.queues({ owner: 'saga:8', mode: 'read' });
    expect(await second!.isLetIn()).toMatchObject({ fence, fences: 1, mode: 'write', contended: true });
    expect((await second!.renews(20_000)).trustedUntil).toBeGreaterThan(clock.now() + 15_000);
    expect(await third!.acquires({ owner: 'saga:7', mode: 'write', fences: 5 })).toMatchObject({ fence, fences: 1, mode: 'write' });
    await stage.expectHolders(key, first, second, third);
    for (const request of [first, second, third]) expect(await request!.release()).toBe('released');
    // Then the reader, whose phase is next, and the writer.
    await reader!.isLetIn();
    await reader!.release();
    await stranger!.isLetIn();
    await stranger!.release();
  });

  promised(['P13', 'owner', 'queue'], 'a request to write that queued before its owner was granted reading waits for its turn', async () => {
    const key = stage.newKey();
    const [holder, reading, reader, writing] = [1, 2, 3, 4].map(() => stage.contender(key));
    await holder!.acquires();
    await reading!.queues({ owner: 'saga:7', mode: 'read' });
    await writing!.queues({ owner: 'saga:7' });
    await holder!.release();
    await reading!.isLetIn();
    expect((await writing!.askAgain()).kind).toBe('waiting');
    await writing!.queues({ owner: 'saga:7' });
    await reader!.queues({ mode: 'read' });
    await reading!.release();
    expect((await writing!.isLetIn()).mode).toBe('write');
    await writing!.release();
    await reader!.isLetIn();
    await reader!.release();
  });

  promised(['P13', 'owner'], 'an owner who reads is not upgraded, and takes no place', async () => {
    const key = stage.newKey();
    const [reader, writer] = [stage.contender(key), stage.contender(key)];
    await reader.acquires({ mode: 'read', owner: 'saga:7' });
    expect(await writer.ask({ owner: 'saga:7' })).toEqual({ kind: 'upgrade' });
    expect((await reader.inspect()).waiters).toEqual([]);
    await reader.release();
  });
}
