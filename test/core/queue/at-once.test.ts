/** Calls with waitMs 0: who is served at once, who is refused, and at how many commands. */
import { describe, expect, it } from '@jest/globals';
import type { LockService } from '../../../lib/lock.service.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import { alone, Fleet, gate } from '../../support/locks.js';

describe('A call that does not want to wait', () => {
  it.each([['read', 'write'], ['write', 'read'], ['write', 'write']] as const)('to %s is refused at once, without a command, while its process has the lock to %s', async (mode, held) => {
    const { fleet, locks, wire } = alone();
    await locks.acquire('k', { mode: held });
    const [since, { commands }] = [fleet.clock.now(), wire];
    expect(await fleet.clock.runUntil(locks.tryAcquire('k', { mode }))).toBeNull();
    expect([fleet.clock.now(), wire.commands]).toEqual([since, commands]);
  });

  it('is told that a call of its process holds the lock, and not when that is lost or another process holds it', async () => {
    const fleet = new Fleet();
    const [here, there] = [fleet.process(), fleet.process()];
    const tries = async (locks: LockService): Promise<string> => String(await fleet.clock.runUntil(locks.acquire('k', { waitMs: 0 }).then(() => 'taken', (error: Error) => error.message)));
    await here.locks.acquire('k', { leaseMs: 1_000 });
    expect(await tries(here.locks)).toBe("Lock 'k' is busy: a call in this process holds it. It was not taken; try again later.");
    expect(await tries(there.locks)).toBe("Lock 'k' is busy. It was not taken; try again later.");
    here.wire.cut = true;
    await fleet.clock.advance(1_000);
    expect(await tries(here.locks)).not.toContain('a call in this process');
    here.wire.cut = false;
  });

  it.each(['read', 'write'] as const)('to %s is refused at once, without a command, while a reader of its process waits for the store', async (mode) => {
    const fleet = new Fleet();
    const other = await fleet.process().locks.acquire('k');
    const { locks, wire } = fleet.process();
    const reader = locks.acquire('k', { mode: 'read' });
    await fleet.clock.settle();
    const [since, { commands }] = [fleet.clock.now(), wire];
    expect(await fleet.clock.runUntil(locks.tryAcquire('k', { mode }))).toBeNull();
    expect([fleet.clock.now(), wire.commands]).toEqual([since, commands]);
    await other.release();
    await (await fleet.clock.runUntil(reader)).release();
  });

  it('to read beside a reader whose answer is on its way is refused with that answer, when the other begins to wait', async () => {
    const fleet = new Fleet();
    const other = await fleet.process().locks.acquire('k');
    const { locks, wire } = fleet.process();
    wire.slowMs = 100;
    const reader = locks.acquire('k', { mode: 'read' });
    await fleet.clock.settle();
    const since = fleet.clock.now();
    expect(await fleet.clock.runUntil(locks.tryAcquire('k', { mode: 'read' }))).toBeNull();
    expect([fleet.clock.now() - since, wire.sent.acquire]).toEqual([100, 1]);
    wire.slowMs = 0;
    await other.release();
    await (await fleet.clock.runUntil(reader)).release();
  });

  it('does not stand in line behind those who wait while a crowd of its process pauses for timers and sockets', async () => {
    const { fleet, locks } = alone();
    const tried: Promise<Lease | null>[] = [];
    const crowd = Array.from({ length: 200 }, () => locks.withLock('k', async () => {}).then(() => void tried.push(locks.tryAcquire('k'))));
    await fleet.clock.runUntil(Promise.all(crowd));
    const got = await fleet.clock.runUntil(Promise.all(tried.slice(0, 190)));
    expect(got).toEqual(got.map(() => null));
    for (const lease of await fleet.clock.runUntil(Promise.all(tried.slice(190)))) await lease?.release();
  });

  it('and is refused before it waited does not end the process that another call keeps alive, and hears its own signal no more', async () => {
    const fleet = new Fleet();
    const held = await fleet.process().locks.acquire('k');
    await fleet.clock.advance(100);
    const open = new Set<object>();
    fleet.clock.keepAlive = () => {
      const wait = {};
      open.add(wait);
      return () => void open.delete(wait);
    };
    const { locks } = fleet.process();
    const work = gate();
    const waiting = locks.withLock('k', () => work.promise);
    await fleet.clock.advance(100);
    expect(open.size).toBe(1);
    const { signal } = new AbortController();
    for (let n = 0; n < 3; n++) expect(await locks.tryAcquire('k', { signal })).toBeNull();
    await fleet.clock.advance(100);
    expect(open.size).toBe(1);
    await held.release();
    await fleet.clock.advance(100);
    expect(open.size).toBe(0);
    work.open();
    await waiting;
  });
});
