/** A Redis that forgets what ended: it goes back to a state with holders who had released their locks, and with tickets that were used. */
import { describe, expect, it } from '@jest/globals';
import type { LockService } from '../../../lib/lock.service.js';
import { eventually } from '../../support/eventually.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, openLocks as openLocksOn } from '../../support/redis-store.js';
import { forEachTest } from '../../support/started.js';

const LEASE_MS = 60_000;
/** Long before the leases in the snapshot end, and long after a recovery. */
const SOON_MS = 15_000;

const server = forEachTest(startRedis, closeStores);

const openLocks = (process: string): Promise<LockService> => openLocksOn(server.url, process, { recoveryMs: 500 }, { leaseMs: LEASE_MS, waitMs: SOON_MS });

describe('What a process has released is free after its Redis', () => {
  it('was killed and restarted with an older snapshot', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    const held = [await a.acquire('k'), await a.acquire('r', { mode: 'read' }), await a.acquire(['m', 'n'])];
    await server.command('SAVE');
    for (const lease of held) expect(await lease.release()).toBe('released');
    await server.kill();
    await server.restart({ keepData: true });
    for (const key of ['k', 'r', 'm', 'n']) expect((await b.acquire(key)).fence).toBeGreaterThan(0);
  });

  it('loaded an older snapshot while it ran', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    const held = await a.acquire('k');
    await server.command('SAVE');
    await held.release();
    await server.command('DEBUG', 'RELOAD', 'NOSAVE');
    await eventually(async () => expect((await b.inspect('k')).holders).toEqual([]), SOON_MS);
    expect((await b.acquire('k')).fence).toBeGreaterThan(held.fence);
  });

  it('was restarted with a snapshot from before a hand-over inside the process, and what is held stays held', async () => {
    const [a, b] = [await openLocks('a'), await openLocks('b')];
    const first = await a.acquire('k', { minHoldMs: 1 });
    const next = a.acquire('k', { minHoldMs: 1 });
    await server.command('SAVE');
    await first.release();
    const held = await next;
    await server.kill();
    await server.restart({ keepData: true });
    await eventually(async () => expect((await b.inspect('k')).holders).toMatchObject([{ fence: held.fence }]), SOON_MS);
    expect(await held.verify()).toBe(true);
  });
});

describe('A ticket that was adopted before its Redis was restarted with an older snapshot', () => {
  it.each([{ permits: 1 }, { mode: 'read' }, { owner: 'job-7' }] as const)('is not adopted again beside the hold that was made of it (%j)', async (options) => {
    const [a, b, c] = [await openLocks('a'), await openLocks('b'), await openLocks('c')];
    const ticket = await (await a.acquire('k', options)).handOff({ withinMs: LEASE_MS });
    await server.command('SAVE');
    const adopted = await b.adopt(ticket);
    await server.kill();
    await server.restart({ keepData: true });
    await expect(c.adopt(ticket)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect(await adopted.verify()).toBe(true);
    expect((await c.inspect('k')).holders).toMatchObject([{ fence: adopted.fence }]);
  });
});
