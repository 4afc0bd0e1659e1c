/** Callers behind a writer of their own process: when they take a place in the store's queue, and what that costs. */
import { describe, expect, it } from '@jest/globals';
import { HAND_ON_WINDOW_MS } from '../../../lib/core/lease/store-lease.js';
import type { WithLockOptions } from '../../../lib/core/port/lock-options.js';
import type { LockService } from '../../../lib/lock.service.js';
import { Fleet, gate } from '../../support/locks.js';

/** What a LockService has inside, as far as a test looks at it. */
interface LockCallsInside {
  readonly watchdog: { readonly schedule: { readonly size: number } };
}

/** A process whose writer holds the lock, and does something `inside`, and two others. `calls` notes who is served when. */
async function stage(inside: (locks: LockService, pending: Promise<unknown>[]) => void = () => {}) {
  const fleet = new Fleet();
  const [here, there, elsewhere] = [fleet.process(), fleet.process(), fleet.process()];
  const work = gate();
  const served: string[] = [];
  const pending: Promise<unknown>[] = [];
  pending.push(here.locks.withLock('k', () => {
    inside(here.locks, pending);
    return work.promise;
  }));
  await fleet.clock.settle();
  const calls = (locks: LockService, name: string, options: WithLockOptions = {}): void => {
    const inside = (): Promise<void> => {
      served.push(name);
      return new Promise((resolve) => void fleet.clock.setTimer(resolve, 10));
    };
    pending.push(locks.withLock('k', options, inside));
  };
  const ends = async (): Promise<readonly string[]> => {
    work.open();
    await fleet.clock.runUntil(Promise.all(pending));
    return served;
  };
  return { clock: fleet.clock, here, there, elsewhere, work, pending, served, calls, ends };
}

describe('A caller behind a writer of its own process', () => {
  it('comes before one that came later elsewhere, once the writer has held the lock for the time in which it could hand it on', async () => {
    const { clock, here, there, calls, ends } = await stage();
    calls(here.locks, 'first');
    await clock.advance(HAND_ON_WINDOW_MS);
    calls(there.locks, 'second');
    await clock.settle();
    calls(here.locks, 'third');
    expect((await there.locks.inspect('k')).waiters).toHaveLength(2);
    expect(await ends()).toEqual(['first', 'second', 'third']);
  });

  it('costs no command before that time is over', async () => {
    const { clock, here, calls, ends } = await stage();
    const before = here.wire.sent.acquire;
    calls(here.locks, 'first');
    await clock.advance(HAND_ON_WINDOW_MS - 1);
    expect(here.wire.sent.acquire).toBe(before);
    await clock.advance(1);
    expect(here.wire.sent.acquire).toBe(before + 1);
    await ends();
  });

  it('asks nothing of a store that keeps no order, until the writer has ended', async () => {
    const { clock, here, calls, ends } = await stage();
    Object.assign(here.wire, { capabilities: { ...here.wire.capabilities, queue: false } });
    const before = here.wire.sent.acquire;
    calls(here.locks, 'first');
    await clock.advance(1_000);
    expect(here.wire.sent.acquire).toBe(before);
    expect(await ends()).toEqual(['first']);
  });

  it('reads together with those elsewhere when the writer has ended, before a writer that came later', async () => {
    const { clock, here, there, elsewhere, calls, ends } = await stage();
    calls(here.locks, 'reads', { mode: 'read' });
    await clock.advance(HAND_ON_WINDOW_MS);
    calls(there.locks, 'writes');
    await clock.settle();
    calls(elsewhere.locks, 'reads too', { mode: 'read' });
    await clock.settle();
    expect((await ends()).at(-1)).toBe('writes');
  });

  it('that gives up takes its place away, and nothing is left to be looked at', async () => {
    const { clock, here, there, ends } = await stage();
    const gaveUp = expect(here.locks.acquire('k', { waitMs: 2 * HAND_ON_WINDOW_MS })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    await clock.advance(HAND_ON_WINDOW_MS);
    expect((await there.locks.inspect('k')).waiters).toHaveLength(1);
    await clock.advance(2 * HAND_ON_WINDOW_MS);
    await gaveUp;
    expect((await there.locks.inspect('k')).waiters).toHaveLength(0);
    await ends();
    await clock.advance(1_000);
    expect(clock.pendingTimers).toBe(0);
  });

  it('reads at once beside what is left of that writer, when it has been downgraded', async () => {
    const outlives = gate();
    const { clock, here, work, pending, served, calls } = await stage((locks, reading) => void reading.push(locks.withLock('k', { mode: 'read' }, () => outlives.promise)));
    calls(here.locks, 'reads', { mode: 'read' });
    work.open();
    await clock.advance(HAND_ON_WINDOW_MS / 2);
    expect(served).toEqual(['reads']);
    outlives.open();
    await clock.runUntil(Promise.all(pending));
  });

  it('is served at once by a writer that ends before that time', async () => {
    const { clock, here, calls, ends } = await stage();
    for (const name of ['first', 'second']) calls(here.locks, name);
    await clock.advance(HAND_ON_WINDOW_MS / 2);
    const before = here.wire.commands;
    expect(await ends()).toEqual(['first', 'second']);
    // One more request for fences, and the release of the last lease.
    expect(here.wire.commands - before).toBeLessThanOrEqual(2);
    const { calls: { watchdog } } = here.locks as unknown as { calls: LockCallsInside };
    expect(watchdog.schedule.size).toBe(0);
  });
});
