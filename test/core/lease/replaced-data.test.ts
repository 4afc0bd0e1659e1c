/**
 * A store whose data are replaced by an earlier state while it runs, as when a server loads a snapshot: its memory has the same name as
 * before. What it answered before that and what comes later says nothing of what it has.
 */
import { describe, expect, it } from '@jest/globals';
import type { AcquireOutcome, AcquireRequest, RenewOutcome, RenewRequest } from '../../../lib/core/port/lock-store.js';
import { readTicket, ticketIdOf } from '../../../lib/core/port/ticket.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, Fleet, gate, type Wire } from '../../support/locks.js';

interface Stage {
  readonly fleet: Fleet;
  readonly locks: LockService;
  readonly wire: Wire;
  /** The memories under which renewals were asked for. */
  readonly renewedUnder: (string | undefined)[];
}

/** A process with a store that names its memory. */
function stage(): Stage {
  const { fleet, locks, wire } = alone({ leaseMs: 6_000 });
  const renewedUnder: (string | undefined)[] = [];
  const { acquire, renew } = { acquire: wire.acquire.bind(wire), renew: wire.renew.bind(wire) };
  wire.acquire = async (request: AcquireRequest): Promise<AcquireOutcome> => {
    const outcome = await acquire(request);
    return outcome.kind === 'granted' ? { ...outcome, grant: { ...outcome.grant, memory: 'M1' } } : outcome;
  };
  wire.renew = async (requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> => {
    renewedUnder.push(...requests.map(({ held }) => held?.memory));
    return (await renew(requests)).map((outcome) => (outcome.kind === 'renewed' ? { ...outcome, memory: 'M1' } : outcome));
  };
  wire.mayHaveForgotten = ({ memory }) => memory !== 'M1';
  return { fleet, locks, wire, renewedUnder };
}

/** The next answer to such a request comes when the test lets it come. */
function holdBack(wire: Wire, verb: 'acquire' | 'renew' | 'adopt'): () => void {
  const original = wire[verb].bind(wire) as (request: never) => Promise<unknown>;
  const { promise, open } = gate();
  Object.assign(wire, {
    [verb]: async (request: never) => {
      Object.assign(wire, { [verb]: original });
      const answer = await original(request);
      await promise;
      return answer;
    },
  });
  return open;
}

describe('When the data of the store were replaced by an earlier state, a lease is brought back at once', () => {
  it('whose renewal had been answered before, though that answer comes later', async () => {
    const { fleet, locks, wire, renewedUnder } = stage();
    const lease = await locks.acquire('k');
    const answer = holdBack(wire, 'renew');
    await fleet.clock.advance(2_100);
    wire.reconnect('replaced');
    await fleet.clock.advance(10);
    answer();
    await fleet.clock.advance(10);
    expect(renewedUnder).toEqual(['M1', '-']);
    lease.assertHeld();
  });

  it('that its holder renews by hand at that moment', async () => {
    const { fleet, locks, wire, renewedUnder } = stage();
    const lease = await locks.acquire('k');
    const answer = holdBack(wire, 'renew');
    const renewal = lease.renew();
    await fleet.clock.advance(5);
    wire.reconnect('replaced');
    await fleet.clock.advance(10);
    answer();
    await renewal;
    await fleet.clock.advance(10);
    expect(renewedUnder).toEqual(['M1', '-', '-']);
  });

  it('that was made of a ticket, and with that ticket, so that the ticket is not adopted once more', async () => {
    const { fleet, locks, wire } = stage();
    const ticket = await (await fleet.process().locks.acquire('k')).handOff();
    await fleet.clock.runUntil(locks.adopt(ticket));
    await locks.acquire('other');
    const tickets: [string, string | undefined][] = [];
    const renew = wire.renew.bind(wire);
    wire.renew = (requests) => {
      for (const { key, held } of requests) tickets.push([key, held?.ticketId]);
      return renew(requests);
    };
    wire.reconnect('replaced');
    await fleet.clock.advance(10);
    expect(tickets.sort()).toEqual([['k', ticketIdOf(readTicket(ticket))], ['other', undefined]]);
  });

  it('once, and renewed as always then', async () => {
    const { fleet, locks, wire, renewedUnder } = stage();
    await locks.acquire('k');
    wire.reconnect('replaced');
    await fleet.clock.advance(10);
    expect(renewedUnder).toEqual(['-']);
    await fleet.clock.advance(2_100);
    expect(renewedUnder).toEqual(['-', 'M1']);
  });
});

describe('When the data of the store were replaced by an earlier state, the store is asked once more', () => {
  it('by a call whose grant was on its way', async () => {
    const { fleet, locks, wire } = stage();
    const answer = holdBack(wire, 'acquire');
    const call = locks.withLock('k', async () => (await locks.inspect('k')).holders.length);
    await fleet.clock.advance(5);
    expect(await fleet.store.forceRelease('k')).toBe(true);
    wire.reconnect('replaced');
    answer();
    expect(await fleet.clock.runUntil(call)).toBe(1);
    expect(wire.sent.acquire).toBe(2);
  });

  it('by an adoption whose answer was on its way', async () => {
    const { fleet, locks, wire } = stage();
    const ticket = await (await fleet.process().locks.acquire('k')).handOff();
    const answer = holdBack(wire, 'adopt');
    const adoption = locks.adopt(ticket);
    await fleet.clock.advance(5);
    wire.reconnect('replaced');
    answer();
    (await fleet.clock.runUntil(adoption)).assertHeld();
    expect(wire.sent.adopt).toBe(2);
  });

  it('by a waiter whose grant is being made longer', async () => {
    const { fleet, locks, wire } = stage();
    const first = await fleet.process().locks.acquire('k');
    const waiter = locks.acquire('k', { renew: false });
    await fleet.clock.advance(5);
    const answer = holdBack(wire, 'renew');
    void first.release();
    await fleet.clock.advance(5);
    const asked = wire.sent.acquire;
    wire.reconnect('replaced');
    answer();
    (await fleet.clock.runUntil(waiter)).assertHeld();
    expect(wire.sent.acquire).toBe(asked + 1);
  });
});
