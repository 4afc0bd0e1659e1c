/** Work under an adopted hold that fails, and whose next attempt goes on under the lock. */
import { describe, expect, it } from '@jest/globals';
import { LockLostError, LockUsageError } from '../../../lib/core/port/errors.js';
import type { LockEvent } from '../../../lib/core/port/lock-events.js';
import { Fleet, gate } from '../../support/locks.js';

const failed = new Error('the provider failed');
const fails = async (): Promise<never> => Promise.reject(failed);

describe("A ticket with onError: 'handBack'", () => {
  it('is good again after work that failed, for withinMs and beyond its first end, and nobody was in between', async () => {
    const fleet = new Fleet();
    const [giver, worker, next, stranger] = [fleet.process(), fleet.process(), fleet.process(), fleet.process()];
    const given = await giver.locks.acquire('order:1');
    const waiting = stranger.locks.acquire('order:1', { waitMs: 600_000 });
    let strangers = 0;
    void waiting.then(() => strangers++);
    const ticket = await fleet.clock.runUntil(given.handOff({ withinMs: 3_000 }));
    const fences: number[] = [given.fence];
    const attempt = ({ locks }: typeof worker, work: () => Promise<unknown>): Promise<unknown> =>
      fleet.clock.runUntil(
        locks.withAdopted(ticket, { onError: 'handBack', withinMs: 20_000 }, async ({ fence }) => {
          fences.push(fence);
          return work();
        }),
      );
    await expect(attempt(worker, fails)).rejects.toBe(failed);
    expect((await next.locks.inspect('order:1')).holders).toMatchObject([{ handedOff: true }]);
    await fleet.clock.advance(15_000);
    await expect(attempt(next, fails)).rejects.toBe(failed);
    await fleet.clock.advance(15_000);
    expect(strangers).toBe(0);
    expect(await attempt(worker, async () => 'paid')).toBe('paid');
    expect(fences).toEqual([...new Set(fences)].sort((a, b) => a - b));
    await (await fleet.clock.runUntil(waiting)).release();
    expect(fleet.store.size).toBe(0);
  });

  it('is good for one attempt at a time', async () => {
    const fleet = new Fleet();
    const [giver, worker, other] = [fleet.process(), fleet.process(), fleet.process()];
    const ticket = await (await giver.locks.acquire('k')).handOff();
    const { promise, open } = gate();
    const first = worker.locks.withAdopted(ticket, { onError: 'handBack' }, () => promise);
    await fleet.clock.advance(10);
    await expect(other.locks.withAdopted(ticket, { onError: 'handBack' }, fails)).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'ticket-used' });
    open();
    await first;
    expect(fleet.store.size).toBe(0);
  });

  it('comes too late after the withinMs of its hand-back, and the lock is free then', async () => {
    const fleet = new Fleet();
    const [giver, worker] = [fleet.process(), fleet.process()];
    const ticket = await (await giver.locks.acquire('k')).handOff({ withinMs: 1_000 });
    await expect(worker.locks.withAdopted(ticket, { onError: 'handBack', withinMs: 2_000 }, fails)).rejects.toBe(failed);
    await fleet.clock.advance(2_100);
    await expect(worker.locks.withAdopted(ticket, { onError: 'handBack' }, fails)).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'ticket-late' });
    expect((await worker.locks.inspect('k')).holders).toEqual([]);
  });

  it('keeps several locks, and their mode', async () => {
    const fleet = new Fleet();
    const [giver, worker] = [fleet.process(), fleet.process()];
    const ticket = await (await giver.locks.acquire(['a', 'b'], { mode: 'read' })).handOff();
    const attempt = (work: () => Promise<unknown>): Promise<unknown> => worker.locks.withAdopted(ticket, { onError: 'handBack' }, work);
    await expect(attempt(fails)).rejects.toBe(failed);
    expect((await worker.locks.inspect('b')).mode).toBe('read');
    expect(await attempt(async () => worker.locks.currentLease()!.keys)).toEqual(['a', 'b']);
    expect(fleet.store.size).toBe(0);
  });

  it('is not good again after work that ended well, or whose lease was lost', async () => {
    const fleet = new Fleet();
    const [giver, worker] = [fleet.process(), fleet.process()];
    const first = await (await giver.locks.acquire('k')).handOff();
    await worker.locks.withAdopted(first, { onError: 'handBack' }, () => 'done');
    const second = await (await giver.locks.acquire('k')).handOff();
    const lost = worker.locks.withAdopted(second, { onError: 'handBack' }, async () => {
      await giver.locks.forceRelease('k');
      throw failed;
    });
    await expect(fleet.clock.runUntil(lost)).rejects.toBeInstanceOf(LockLostError);
    for (const ticket of [first, second]) await expect(worker.locks.adopt(ticket)).rejects.toMatchObject({ reason: 'ticket-used' });
  });

  it('releases the lock where calls are still inside the hold, because they would go on without it', async () => {
    const fleet = new Fleet();
    const [giver, worker] = [fleet.process(), fleet.process()];
    const ticket = await (await giver.locks.acquire('k')).handOff();
    const { promise, open } = gate();
    let inside: Promise<unknown> | undefined;
    const work = worker.locks.withAdopted(ticket, { onError: 'handBack' }, async () => {
      inside = worker.locks.withLock('k', () => promise);
      throw failed;
    });
    await expect(work).rejects.toBe(failed);
    const { holders } = await worker.locks.inspect('k');
    expect(holders.map(({ handedOff }) => handedOff)).toEqual([undefined]);
    open();
    await inside;
    await fleet.clock.advance(10);
    expect(fleet.store.size).toBe(0);
  });

  it('tells the failure of the work, and the events that the hold was handed off', async () => {
    const fleet = new Fleet();
    const [giver, worker] = [fleet.process(), fleet.process()];
    const ticket = await (await giver.locks.acquire('k')).handOff();
    const events: LockEvent['type'][] = [];
    worker.locks.events.subscribe(({ type }) => events.push(type));
    await expect(worker.locks.withAdopted(ticket, { onError: 'handBack' }, fails)).rejects.toBe(failed);
    expect(events).toEqual(['adopted', 'handedOff']);
  });

  it('waits until an adoption that got no answer can act no more: it would adopt the ticket for a hold that is over', async () => {
    const fleet = new Fleet();
    const [giver, worker, next] = [fleet.process(), fleet.process(), fleet.process()];
    const ticket = await (await giver.locks.acquire('k')).handOff();
    worker.wire.deaf = true;
    const since = fleet.clock.now();
    const work = worker.locks.withAdopted(ticket, { onError: 'handBack' }, fails);
    await fleet.clock.advance(100);
    worker.wire.deaf = false;
    await expect(fleet.clock.runUntil(work)).rejects.toBe(failed);
    expect(fleet.clock.now() - since).toBeGreaterThan(2_000);
    expect(await next.locks.withAdopted(ticket, { onError: 'handBack' }, () => 'paid')).toBe('paid');
  });

  it.each<[object, string]>([
    [{ onError: 'handback' }, "expected onError to be 'release' or 'handBack', got 'handback'"],
    [{ withinMs: 5_000 }, "withinMs says how long a ticket is good that was handed back, so it needs onError: 'handBack'"],
    [{ onError: 'handBack', withinMs: 0 }, 'expected withinMs to be a whole number from 1 to 60000, got 0'],
    [{ onError: 'handBack', withinMs: 60_001 }, 'expected withinMs to be a whole number from 1 to 60000, got 60001'],
  ])('refuses %p, and the ticket is as good as before', async (options, words) => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const ticket = await (await locks.acquire('k')).handOff();
    const refused = locks.withAdopted(ticket, options, () => 0);
    await expect(refused).rejects.toBeInstanceOf(LockUsageError);
    await expect(refused).rejects.toThrow(words);
    expect(wire.sent.adopt).toBe(0);
    await (await locks.adopt(ticket)).release();
  });
});
