/** A hand-off that gets no answer: until when each try may act, and when it is made again. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { HandOffRequest } from '../../../lib/core/port/ticket.js';
import { alone, Fleet } from '../../support/locks.js';

interface Giver {
  readonly fleet: Fleet;
  readonly lease: Lease;
  /** What the store was asked, in order, and when. */
  readonly asked: readonly (HandOffRequest & { readonly at: number })[];
}

/** The first `unanswered` tries get no answer; whether they act is the test's. The hold that is handed off has all of `keys`, the other readers only 'k'. */
async function giver({ unanswered, acts = false, readers = 1, waitMs = 10_000, keys = ['k'] }: { unanswered: number; acts?: boolean; readers?: number; waitMs?: number; keys?: string[] }): Promise<Giver> {
  const { fleet, locks, wire } = alone({ commandTimeoutMs: 500 });
  const asked: (HandOffRequest & { readonly at: number })[] = [];
  const handOff = wire.handOff.bind(wire);
  wire.handOff = async (request) => {
    asked.push({ ...request, at: fleet.clock.now() });
    const isUnanswered = asked.length <= unanswered;
    const outcome = isUnanswered && !acts ? undefined : await handOff(request);
    if (outcome === undefined || isUnanswered) throw new LockStoreError('the connection has ended');
    return outcome;
  };
  const leases: Lease[] = [];
  for (let n = 0; n < readers; n++) leases.push(await locks.acquire(n === 0 ? keys : 'k', { mode: 'read', waitMs }));
  return { fleet, lease: leases[0]!, asked };
}

describe('A hand-off without an answer', () => {
  it('is made again shortly after under the same ticket, and each try may act for commandTimeoutMs', async () => {
    const { fleet, lease, asked } = await giver({ unanswered: 2 });
    await fleet.clock.runUntil(lease.handOff());
    expect(asked).toHaveLength(3);
    expect(new Set(asked.map(({ ticketId }) => ticketId)).size).toBe(1);
    expect(asked.map(({ at, notAfter }) => Math.round(notAfter - at))).toEqual([500, 500, 500]);
    expect(asked[2]!.at - asked[0]!.at).toBeLessThan(400);
  });

  it.each([[true], [false]])('is made again only when the try before can act no more, beside readers who go on with the lease; the try had acted: %p', async (acts) => {
    const { fleet, lease, asked } = await giver({ unanswered: 1, acts, readers: 2 });
    const ticket = await fleet.clock.runUntil(lease.handOff({ withinMs: 20_000 }));
    expect(asked).toHaveLength(2);
    expect(asked[1]!.at).toBeGreaterThan(asked[0]!.notAfter);
    const [worker, other] = [fleet.process().locks, fleet.process().locks];
    const adopted = await worker.adopt(ticket);
    // The copy of the first try, which the network had kept.
    await expect(fleet.store.tickets.handOff(asked[0]!)).rejects.toThrow('too late to be served');
    await expect(other.adopt(ticket)).rejects.toThrow('adopted already');
    expect((await other.inspect('k')).holders).toHaveLength(2);
    await adopted.release();
  });

  it('of several locks is made again as late when readers go on with one of them', async () => {
    const { fleet, lease, asked } = await giver({ unanswered: 1, readers: 2, keys: ['k', 'l'] });
    await fleet.clock.runUntil(lease.handOff({ withinMs: 20_000 }));
    expect(asked.map(({ holds }) => holds.map(({ stays }) => stays))).toEqual([[true, false], [true, false]]);
    expect(asked[1]!.at).toBeGreaterThan(asked[0]!.notAfter);
  });
});
