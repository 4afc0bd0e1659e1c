/** Every loss says why by a word that a program can compare: in the error, in the reason of `signal`, and in the event. */
import { describe, expect, it, jest } from '@jest/globals';
import type { LockLostError } from '../../../lib/core/port/errors.js';
import type { LockDefaults, LockOptions } from '../../../lib/core/port/lock-options.js';
import { alone } from '../../support/locks.js';

/** A hold, and the reasons of the losses that its process is told of as events. */
async function held(options: LockOptions = {}, defaults: LockDefaults = {}) {
  const { fleet, locks, wire } = alone(defaults);
  const told: string[] = [];
  locks.events.subscribe((event) => void (event.type === 'lost' && told.push(event.cause.reason)));
  const lease = await locks.acquire('k', options);
  const reason = (): string => (lease.signal.reason as LockLostError).reason;
  return { fleet, locks, wire, lease, told, reason };
}

describe('A lost lease says', () => {
  it('expired when it could not be renewed, and when its fixed length was over', async () => {
    const cut = await held({ leaseMs: 1_000 });
    cut.wire.cut = true;
    await cut.fleet.clock.advance(1_500);
    const fixed = await held({ leaseMs: 1_000, renew: false });
    await fixed.fleet.clock.advance(1_500);
    for (const { reason, told, lease } of [cut, fixed]) {
      expect([reason(), ...told]).toEqual(['expired', 'expired']);
      expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ reason: 'expired' }));
    }
  });

  it('max-hold when that was over', async () => {
    const { fleet, reason, told } = await held({ maxHoldMs: 500 });
    await fleet.clock.advance(600);
    expect([reason(), ...told]).toEqual(['max-hold', 'max-hold']);
  });

  it('released-by-force when an operator took the lock away, and gone when no message said so', async () => {
    const forced = await held();
    await forced.locks.forceRelease('k');
    await forced.fleet.clock.advance(10);
    expect([forced.reason(), ...forced.told]).toEqual(['released-by-force', 'released-by-force']);
    const silent = await held();
    silent.wire.lostWakes.add('lost');
    await silent.locks.forceRelease('k');
    await silent.fleet.clock.advance(11_000);
    expect([silent.reason(), ...silent.told]).toEqual(['gone', 'gone']);
  });

  it('released-by-force also when the next call of its process is granted the lock before the store was asked', async () => {
    const { locks, fleet, wire, reason, told } = await held();
    const next = locks.acquire('k', { leaseMs: 20_000 }); // other terms, so it waits in the store
    await fleet.clock.advance(10);
    const asked = jest.spyOn(wire, 'renew').mockReturnValue(new Promise(() => {})); // the grant comes before any answer
    await fleet.store.forceRelease('k');
    await fleet.clock.advance(100);
    await next;
    expect(asked).toHaveBeenCalledTimes(1);
    expect([reason(), ...told]).toEqual(['released-by-force', 'released-by-force']);
  });

  it('forgotten when the store may have forgotten it', async () => {
    const { fleet, wire, lease, reason, told } = await held();
    wire.mayHaveForgotten = () => true;
    wire.lostWakes.add('lost');
    await fleet.store.forceRelease('k');
    await fleet.clock.advance(11_000);
    expect([reason(), ...told]).toEqual(['forgotten', 'forgotten']);
    expect(await lease.release()).toBe('lost');
  });

  it('shutdown when the work went on for too long, and ended when it was over before', async () => {
    const { fleet, locks, lease, reason, told } = await held({}, { shutdownGraceMs: 100 });
    const closing = locks.close();
    await fleet.clock.advance(5_000);
    await closing;
    expect([reason(), ...told]).toEqual(['shutdown', 'shutdown']);
    const over = await held();
    await over.lease.release();
    expect(() => over.lease.assertHeld()).toThrow(expect.objectContaining({ reason: 'ended' }));
    void lease;
  });

  it('the same in the error of withLock, which carries the outcome of the work', async () => {
    const { fleet, locks } = alone();
    const work = locks.withLock('k', { maxHoldMs: 500 }, () => fleet.clock.advance(600));
    await expect(work).rejects.toMatchObject({ reason: 'max-hold', outcome: { status: 'fulfilled' } });
  });

  it('ticket-late and ticket-used when an adoption came too late, or second', async () => {
    const { fleet, locks } = alone();
    const ticket = await (await locks.acquire('k')).handOff();
    await (await locks.adopt(ticket)).release();
    await expect(locks.adopt(ticket)).rejects.toMatchObject({ reason: 'ticket-used' });
    const late = await (await locks.acquire('k')).handOff({ withinMs: 100 });
    await fleet.clock.advance(10_000);
    await expect(locks.adopt(late)).rejects.toMatchObject({ reason: 'ticket-late' });
  });
});
