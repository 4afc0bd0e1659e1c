/** Tickets in a process that shuts down: it adopts nothing any more, and keeps nothing that it was about to adopt. */
import { describe, expect, it } from '@jest/globals';
import { LockClosedError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import { Fleet } from '../../support/locks.js';

describe('A process that shuts down', () => {
  it('adopts nothing any more, and may hand off what it holds', async () => {
    const fleet = new Fleet();
    const [giver, worker] = [fleet.process(), fleet.process()];
    const lease: Lease = await giver.locks.acquire('k');
    const theirs = await (await worker.locks.acquire('other')).handOff();
    const closing = giver.locks.close();
    await expect(giver.locks.adopt(theirs)).rejects.toBeInstanceOf(LockClosedError);
    const ticket = await lease.handOff();
    await fleet.clock.runUntil(closing);
    await (await worker.locks.adopt(ticket)).release();
    await (await worker.locks.adopt(theirs)).release();
    expect(fleet.store.size).toBe(0);
  });

  it('gives back what an adoption on its way brings, and its close waits for that', async () => {
    const fleet = new Fleet();
    const [giver, worker] = [fleet.process(), fleet.process()];
    const ticket = await (await giver.locks.acquire('k')).handOff();
    worker.wire.slowMs = 50;
    const adopting = worker.locks.adopt(ticket);
    adopting.catch(() => {});
    const closing = worker.locks.close();
    await expect(adopting).rejects.toBeInstanceOf(LockClosedError);
    await fleet.clock.runUntil(closing);
    await (await giver.locks.acquire('k', { waitMs: 0 })).release();
    expect(fleet.store.size).toBe(0);
  });

  it('lets no work begin that an adoption on its way would bring, though other holds go on', async () => {
    const fleet = new Fleet();
    const [giver, worker] = [fleet.process(), fleet.process()];
    const ticket = await (await giver.locks.acquire('k')).handOff();
    const lease = await worker.locks.acquire('other');
    worker.wire.slowMs = 50;
    let ran = false;
    const adopting = worker.locks.withAdopted(ticket, () => (ran = true));
    adopting.catch(() => {});
    const closing = worker.locks.close();
    await fleet.clock.advance(100);
    await expect(adopting).rejects.toBeInstanceOf(LockClosedError);
    expect(ran).toBe(false);
    worker.wire.slowMs = 0;
    await lease.release();
    await fleet.clock.runUntil(closing);
    expect(fleet.store.size).toBe(0);
  });
});
