/** A hold that goes from one process to another by a ticket, seen from calls of the library. */
import { describe, expect, it } from '@jest/globals';
import { LockLostError, LockStoreError, LockUsageError } from '../../../lib/core/port/errors.js';
import { foreignTicketError, handOffError, ticketError } from '../../../lib/core/port/hold-errors.js';
import type { Ticket } from '../../../lib/core/port/ticket.js';
import { alone, Fleet, eventsOf, gate } from '../../support/locks.js';

describe('A hold that is handed off', () => {
  it('belongs to whoever brings its ticket, with a higher fence, and nobody was in between', async () => {
    const fleet = new Fleet();
    const [giver, worker, stranger] = [fleet.process(), fleet.process(), fleet.process()];
    const lease = await giver.locks.acquire('order:1');
    const waiting = stranger.locks.acquire('order:1', { waitMs: 600_000 });
    let strangers = 0;
    void waiting.then(() => strangers++);
    await fleet.clock.advance(10);
    const ticket = await fleet.clock.runUntil(lease.handOff());
    await fleet.clock.advance(5_000);
    const adopted = await fleet.clock.runUntil(worker.locks.adopt(ticket));
    expect(adopted).toMatchObject({ key: 'order:1', keys: ['order:1'], mode: 'write' });
    expect(adopted.fence).toBeGreaterThan(lease.fence);
    adopted.assertHeld();
    expect(await adopted.verify()).toBe(true);
    await fleet.clock.advance(100_000);
    expect(strangers).toBe(0);
    expect(await adopted.release()).toBe('released');
    await (await fleet.clock.runUntil(waiting)).release();
  });

  it('is over for the giver before anything is sent: it trusts no more, and has nothing left to release', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { leaseMs: 300 });
    const before = wire.commands;
    const handedOff = lease.handOff({ withinMs: 10_000 });
    expect(wire.commands).toBe(before + 1);
    expect(lease.remainingMs).toBe(0);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(() => lease.assertHeld()).toThrow("Lock 'k' was lost: this process handed it off.");
    await handedOff;
    expect(await lease.release()).toBe('released');
    expect(lease.signal.aborted).toBe(false);
    await expect(lease.renew()).rejects.toBeInstanceOf(LockLostError);
    await expect(lease.handOff()).rejects.toBeInstanceOf(LockLostError);
    expect(await lease.verify()).toBe(false);
    await fleet.clock.advance(5_000);
    expect(wire.sent).toMatchObject({ handOff: 1, renew: 0, release: 0 });
    expect((await locks.inspect('k')).holders).toMatchObject([{ handedOff: true }]);
  });

  it('lets the work that handed it off end as usual, with its result', async () => {
    const fleet = new Fleet();
    const [giver, worker] = [fleet.process(), fleet.process()];
    const ticket = await giver.locks.withLock('k', { permits: 2 }, async (lease) => {
      await giver.locks.withLock('k', { permits: 2 }, () => {});
      const given = await lease.handOff();
      expect(giver.locks.currentLease('k')).toBeUndefined();
      return given;
    });
    const result = await worker.locks.withAdopted(ticket, { leaseMs: 5_000 }, async (lease) => {
      expect(worker.locks.currentLease('k')).toBe(lease);
      await worker.locks.withLock('k', { permits: 2 }, () => {});
      return `paid under ${lease.fence}`;
    });
    expect(result).toMatch(/^paid under \d+$/);
    expect(fleet.store.size).toBe(0);
  });

  it('is told when one of its locks was taken away before the hand-off: there is no ticket, and the others are free', async () => {
    const { fleet, locks, wire } = alone();
    wire.lostWakes.add('lost');
    const lease = await locks.acquire(['a', 'b']);
    await locks.forceRelease('b');
    await expect(lease.handOff()).rejects.toThrow('the store no longer knew it when it was handed off.');
    expect(lease.signal.aborted).toBe(true);
    expect(await lease.release()).toBe('lost');
    await fleet.clock.advance(100);
    expect(fleet.store.size).toBe(0);
  });

  it('goes to callers of the same process behind the ticket, not on its lease', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k');
    const next = locks.acquire('k', { waitMs: 60_000 });
    await fleet.clock.advance(10);
    const ticket = await lease.handOff({ withinMs: 20_000 });
    await fleet.clock.advance(5_000);
    const adopted = await locks.adopt(ticket);
    await adopted.release();
    const got = await fleet.clock.runUntil(next);
    expect(got.fence).toBeGreaterThan(adopted.fence);
    expect(wire.sent.acquire).toBeGreaterThanOrEqual(2);
  });

  it('is announced: handedOff in place of released, adopted in place of granted', async () => {
    const { locks } = alone();
    const events = eventsOf(locks);
    const ticket = await (await locks.acquire('k')).handOff();
    await (await locks.adopt(ticket)).release();
    await expect(locks.adopt(ticket)).rejects.toThrow(LockLostError);
    expect(events.map(({ type }) => type)).toEqual(['granted', 'handedOff', 'adopted', 'released', 'failed']);
    expect(events[2]).toMatchObject({ key: 'k', mode: 'write', nested: false, waitedMs: 0 });
  });

  it('is shown as handed on to those who look, and to those who waited in vain', async () => {
    const fleet = new Fleet();
    const [giver, other] = [fleet.process(), fleet.process()];
    const ticket = await (await giver.locks.acquire('k', { leaseMs: 9_000 })).handOff();
    const { holders } = await other.locks.inspect('k');
    expect(holders).toMatchObject([{ handedOff: true, remainingMs: 9_000 }]);
    const secret: unknown = JSON.parse(Buffer.from(ticket.split('.')[1]!, 'base64url').toString())[4];
    expect(secret).toMatch(/^[\w-]{22}$/);
    expect(JSON.stringify(holders)).not.toContain(secret as string);
    await expect(fleet.clock.runUntil(other.locks.acquire('k', { waitMs: 500 }))).rejects.toThrow('handed off with a ticket that nobody has adopted yet');
  });
});

describe('A hold that cannot be handed off', () => {
  it('is one with calls inside it, and a nested one', async () => {
    const { fleet, locks, wire } = alone();
    await locks.withLock('k', async (outer) => {
      const { promise, open } = gate();
      const inside = locks.withLock('k', async (nested) => {
        await expect(nested.handOff()).rejects.toThrow(LockUsageError);
        await expect(outer.handOff()).rejects.toThrow(/calls are still inside this hold/);
        await promise;
      });
      await expect(Promise.race([inside, Promise.resolve()])).resolves.toBeUndefined();
      await fleet.clock.advance(1);
      await expect(outer.handOff()).rejects.toBeInstanceOf(LockUsageError);
      open();
      await inside;
      outer.assertHeld();
    });
    expect(wire.sent.handOff).toBe(0);
  });
});

describe('A ticket that is of no use here', () => {
  const ticketOf = async (fleet: Fleet): Promise<string> => (await fleet.process().locks.acquire('k')).handOff();

  it.each([
    ['nothing', () => undefined],
    ['a ticket with a changed letter', (ticket: string) => `${ticket.slice(0, 20)}${ticket[20] === 'A' ? 'B' : 'A'}${ticket.slice(21)}`],
  ])('is %s: nothing is asked of the store', async (_name, damaged) => {
    const fleet = new Fleet();
    const ticket = await ticketOf(fleet);
    const { locks, wire } = fleet.process();
    await expect(locks.adopt(damaged(ticket) as string)).rejects.toBeInstanceOf(LockUsageError);
    await expect(locks.withAdopted(damaged(ticket) as string, () => 1)).rejects.toBeInstanceOf(LockUsageError);
    expect(wire.commands).toBe(0);
    await (await locks.adopt(ticket)).release();
  });

  it('is one of another embedded store', async () => {
    const ticket = await ticketOf(new Fleet());
    const { locks, wire } = new Fleet().process();
    await expect(locks.adopt(ticket)).rejects.toThrow('this ticket is of an embedded store');
    expect(wire.commands).toBe(0);
  });

  it('is adopted with an option that it decides itself', async () => {
    const fleet = new Fleet();
    const ticket = await ticketOf(fleet);
    const { locks } = fleet.process();
    const wrong = { mode: 'read' } as object;
    await expect(locks.adopt(ticket, wrong)).rejects.toThrow("unknown option 'mode'");
    await (await locks.adopt(ticket, { leaseMs: 1_000, maxHoldMs: 5_000 })).release();
  });
});

const ticket: Ticket = { home: 'redis {lock}', instance: 'default', keys: ['k', 'l'], process: 'p', secret: 's', until: 1 };

describe('The error of a ticket', () => {
  it.each([
    ['another prefix', { home: 'redis {other lock}', instance: 'default' }, `this ticket is of a Redis with the prefix '{lock}', but was given to a Redis with the prefix '{other lock}'.`],
    ['an embedded store', { home: 'embedded 7', instance: 'default' }, `this ticket is of a Redis with the prefix '{lock}', but was given to an embedded store, which is in one process only.`],
    ['another module', { home: 'redis {lock}', instance: 'jobs' }, `this ticket is of the lock module 'default', but was given to the lock module 'jobs'.`],
  ])('that was brought to %s says where it belongs', (_where, here, told) => {
    expect(foreignTicketError(ticket, here)).toMatchObject({ code: 'LOCK_USAGE', key: 'k' });
    expect(foreignTicketError(ticket, here).message).toBe(`Lock 'k': ${told} The store was not asked. Adopt it where its locks are.`);
  });

  it.each([[1_500.4, 1_500], [0.2, 1]])('that came %d ms too late says so in whole milliseconds, and never that it came in time: %d', (lateByMs, told) => {
    expect(ticketError('k', ticket, { now: ticket.until, memory: undefined }).reason).toBe('ticket-used');
    expect(ticketError('k', ticket, { now: ticket.until + lateByMs, memory: undefined }).message).toMatch(new RegExp(`^Lock 'k' was lost: its ticket came too late, ${told} ms after its end\\.`));
  });

  it('that was never made says why and what became of the hold, and that it cannot be tried again', () => {
    const cause = new LockStoreError('No node answered.', { nodes: [{ node: 'a:6379', reason: 'timeout' }] });
    expect(handOffError('k', cause)).toMatchObject({ key: 'k', cause, nodes: cause.nodes, retryable: false });
    expect(handOffError('k', cause).message).toMatch(/^Lock 'k' could not be handed off: a:6379: timeout\. The hold has ended and there is no ticket;/);
  });
});
