/** The contract's third part: whose turn it is. */
import { expect } from '@jest/globals';
import type { Promised, Stage } from './lock-store.contract.js';

export function takesTurns(stage: Stage, promised: Promised): void {
  promised(['P7', 'queue'], 'writers of all processes are served in the order they came', async () => {
    const key = stage.newKey();
    const writers = await stage.line(key, 'write', 'write', 'write', 'write', 'write', 'write');
    for (const [place, writer] of writers.entries()) {
      await stage.expectHolders(key, writer);
      expect((await writer.inspect()).waiters.map(({ id }) => id)).toEqual(writers.slice(place + 1).map(({ id }) => id));
      await writer.release();
    }
    await stage.expectHolders(key);
  });

  promised(['P7', 'queue'], 'after a writer all waiting readers enter together, and then one writer', async () => {
    const key = stage.newKey();
    const [first, early, second, late, third] = await stage.line(key, 'write', 'read', 'write', 'read', 'write');
    await first!.release();
    await stage.expectHolders(key, early, late);
    await early!.release();
    await stage.expectHolders(key, late);
    await late!.release();
    await stage.expectHolders(key, second);
    await second!.release();
    await stage.expectHolders(key, third);
    await third!.release();
    await stage.expectHolders(key);
  });

  promised(['P7', 'queue'], 'a reader that comes while a writer waits queues behind it', async () => {
    const key = stage.newKey();
    const [present, writer] = await stage.line(key, 'read', 'write');
    const late = stage.contender(key);
    await late.isRefused({ mode: 'read' });
    await late.queues({ mode: 'read' });
    await present!.release();
    await stage.expectHolders(key, writer);
    await writer!.release();
    await stage.expectHolders(key, late);
    await late.release();
  });

  promised(['P7', 'queue'], 'neither side starves: read and write phases alternate while both wait', async () => {
    const key = stage.newKey();
    const [first, ...others] = await stage.line(key, 'write', 'write', 'write', 'read');
    const phases: string[] = [];
    let holders = [first!];
    while (holders.length > 0) {
      const { mode } = await first!.inspect();
      phases.push(String(mode));
      // A reader comes in each phase, as if there were no end of them.
      if (phases.length < 5) others.push(...(await stage.line(key, 'read')));
      for (const holder of holders) await holder.release();
      const ids = new Set((await first!.inspect()).holders.map(({ id }) => id));
      holders = others.filter(({ id }) => ids.has(id));
    }
    expect(phases).toEqual(['write', 'read', 'write', 'read', 'write', 'read']);
  });

  promised(['P7', 'P4', 'queue'], 'a writer that gives up lets the readers in that queued behind it', async () => {
    const key = stage.newKey();
    const [present, writer, first, second] = await stage.line(key, 'read', 'write', 'read', 'read');
    await writer!.release();
    await stage.expectHolders(key, present, first, second);
    await first!.isLetIn();
    for (const reader of [present!, first!, second!]) await reader.release();
  });

  promised(['downgrade', 'queue'], 'a downgrade admits the queued readers at once, and the queued writer after all of them', async () => {
    const key = stage.newKey();
    const [writer, reader, next] = await stage.line(key, 'write', 'read', 'write');
    expect(await writer!.downgrade()).toBe('downgraded');
    expect(await writer!.downgrade()).toBe('downgraded');
    await stage.expectHolders(key, writer, reader);
    expect((await writer!.inspect()).mode).toBe('read');
    await reader!.isLetIn();
    expect((await writer!.renews()).contended).toBe(true);
    await writer!.release();
    await stage.expectHolders(key, reader);
    await reader!.release();
    await stage.expectHolders(key, next);
    await next!.release();
  });

  promised(['downgrade'], 'after a downgrade the lock is shared, under the same fence', async () => {
    const key = stage.newKey();
    const [writer, reader, other] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    const { fence } = await writer.acquires();
    await writer.downgrade();
    await reader.acquires({ mode: 'read' });
    await other.isRefused();
    expect((await writer.inspect()).holders.find(({ id }) => id === writer.id)?.fence).toBe(fence);
    await writer.release();
    await reader.release();
  });

  promised(['downgrade', 'owner'], 'a downgrade beside another write hold of its owner lets nobody else in', async () => {
    const key = stage.newKey();
    const [first, second, reader] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    await first.acquires({ owner: 'saga:7' });
    await second.acquires({ owner: 'saga:7' });
    expect(await first.downgrade()).toBe('downgraded');
    await reader.isRefused({ mode: 'read' });
    await first.release();
    await second.release();
  });

  promised(['P3', 'queue'], 'the same request again keeps the same place, and one that was let in gets its grant', async () => {
    const key = stage.newKey();
    const [holder, first, second] = await stage.line(key, 'write', 'write', 'write');
    await first!.queues();
    expect((await holder!.inspect()).waiters.map(({ id }) => id)).toEqual([first!.id, second!.id]);
    await holder!.release();
    const grant = await first!.isLetIn();
    expect((await first!.acquires()).fence).toBe(grant.fence);
    await first!.release();
    await second!.isLetIn();
    await second!.release();
  });
}
