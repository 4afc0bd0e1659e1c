/** The leases that a process made of tickets: whose they are, how long they last, and what is left of them when they have ended. */
import { describe, expect, it } from '@jest/globals';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { AdoptOptions } from '../../../lib/core/port/lock-options.js';
import { alone, Fleet, type Wire } from '../../support/locks.js';

/** A process that has `k` by a ticket, and the id under which the store knows it. */
async function adopted(options: AdoptOptions = {}): Promise<{ fleet: Fleet; wire: Wire; lease: Lease; id: string }> {
  const { fleet, locks, wire } = alone();
  const lease = await locks.adopt(await (await fleet.process().locks.acquire('k')).handOff(), options);
  return { fleet, wire, lease, id: (await fleet.store.inspect('k')).holders[0]!.id };
}

describe('A lease that was made of a ticket', () => {
  it('is renewed no longer than its maxHoldMs, so that others are let in though its work hangs', async () => {
    const { fleet, lease } = await adopted({ leaseMs: 500, maxHoldMs: 1_200 });
    await fleet.clock.advance(1_000);
    lease.assertHeld();
    const since = fleet.clock.now();
    const next = await fleet.clock.runUntil(fleet.process().locks.acquire('k'));
    expect(fleet.clock.now() - since).toBeLessThanOrEqual(210);
    expect([lease.signal.aborted, await lease.release()]).toEqual([true, 'lost']);
    expect(await next.release()).toBe('released');
  });

  it.each(['release', 'handOff'] as const)('is over with its %s: it is renewed no more, and a grant that the store makes for it later is given back', async (how) => {
    const { fleet, wire, lease, id } = await adopted({ leaseMs: 3_000 });
    await fleet.clock.advance(100);
    await lease[how]();
    const { release, renew } = wire.sent;
    await fleet.clock.advance(10_000);
    expect(wire.sent.renew).toBe(renew);
    fleet.wake({ kind: 'stray', key: 'k', id });
    await fleet.clock.settle();
    expect(wire.sent.release).toBe(release + 1);
  });
});
