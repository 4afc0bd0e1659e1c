/** What the store may answer to a hand-off: nothing, or that it forgot the hold; how long it is asked, and what is freed when there is no ticket. */
import { describe, expect, it } from '@jest/globals';
import { LockLostError, LockStoreError, LockUsageError } from '../../../lib/core/port/errors.js';
import type { RenewRequest } from '../../../lib/core/port/lock-store.js';
import type { HandOffOutcome, HandOffRequest } from '../../../lib/core/port/ticket.js';
import { LockService } from '../../../lib/lock.service.js';
import { resolveDefaults } from '../../../lib/core/port/options.js';
import { StoreAround } from '../../support/store-around.js';
import { alone, Fleet } from '../../support/locks.js';

const { commandTimeoutMs } = resolveDefaults();
const failure = (retryable: boolean): LockStoreError => new LockStoreError('the store is ill', { retryable });
const LOST: HandOffOutcome = { kind: 'lost', key: 'a' };

/** A process whose hand-offs are answered by the test, and what its store was told. */
function setUp(answer: (request: HandOffRequest, ask: () => Promise<HandOffOutcome>) => Promise<HandOffOutcome>) {
  const { fleet, locks, wire } = alone();
  const asked: HandOffRequest[] = [];
  const broughtBack: RenewRequest[] = [];
  const released: { id: string; at: number }[] = [];
  const handOff = wire.handOff.bind(wire);
  wire.handOff = (request) => (asked.push(request), answer(request, () => handOff(request)));
  const renew = wire.renew.bind(wire);
  wire.renew = (requests) => (broughtBack.push(...requests.map((request) => ({ ...request, held: { ...request.held! } }))), renew(requests));
  const release = wire.release.bind(wire);
  wire.release = (request) => (released.push({ id: request.id, at: fleet.clock.now() }), release(request));
  return { fleet, clock: fleet.clock, locks, wire, asked, broughtBack, released, other: fleet.process().locks };
}

describe('A hand-off of which the store says that it does not know the hold', () => {
  it('is asked for once more when all of its locks were brought back, as they were', async () => {
    let answers = 0;
    const { clock, locks, asked, broughtBack, other } = setUp(async (_, ask) => ((answers += 1) === 1 ? LOST : ask()));
    const lease = await locks.acquire(['a', 'b'], { leaseMs: 9_000 });
    await clock.advance(1_000.5);
    const ticket = await lease.handOff();
    expect(asked).toHaveLength(2);
    expect(broughtBack.map(({ key, leaseMs }) => [key, leaseMs])).toEqual([['a', 7_999], ['b', 7_999]]);
    for (const { held } of broughtBack) expect(held).toMatchObject({ isHeld: true, isReleased: false, mode: 'write', trustedUntil: clock.now() + 7_999.5 });
    await (await other.adopt(ticket)).release();
  });

  it('is lost when the store says it again', async () => {
    const { locks, asked, broughtBack } = setUp(async () => LOST);
    await expect((await locks.acquire('a')).handOff()).rejects.toBeInstanceOf(LockLostError);
    expect([asked.length, broughtBack.length]).toEqual([2, 1]);
  });
});

describe('A hand-off that gets no answer', () => {
  it.each([[10_000, 10_000], [0, commandTimeoutMs]])('of a call with waitMs %i is tried again for %i ms', async (waitMs, forMs) => {
    const { clock, locks, asked } = setUp(() => Promise.reject(failure(true)));
    const lease = await locks.acquire('a', { waitMs });
    const since = clock.now();
    await expect(clock.runUntil(lease.handOff())).rejects.toBeInstanceOf(LockStoreError);
    expect(clock.now() - since).toBeLessThanOrEqual(forMs);
    expect(clock.now() - since).toBeGreaterThan(forMs - 250);
    expect(new Set(asked.map(({ ticketId }) => ticketId)).size).toBe(1);
  });

  it('is what a look at the hold says afterwards, and not that the hold was handed off', async () => {
    const { locks } = setUp(() => Promise.reject(failure(false)));
    const lease = await locks.acquire('a');
    await expect(lease.handOff()).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false });
    expect(() => lease.assertHeld()).toThrow('its hand-off failed');
    const other = setUp((_request, ask) => ask());
    const given = await other.locks.acquire('a');
    await given.handOff();
    expect(() => given.assertHeld()).toThrow('this process handed it off');
  });

  it('frees its lock and the ticket for as long as a request for them may still act', async () => {
    const { clock, locks, asked, released } = setUp(() => Promise.reject(failure(false)));
    const lease = await locks.acquire('a');
    const since = clock.now();
    await expect(lease.handOff()).rejects.toBeInstanceOf(LockStoreError);
    await clock.advance(60_000);
    const [ticket, own] = [asked[0]!.ticketId, asked[0]!.holds[0]!.id];
    for (const id of [ticket, own]) {
      const last = released.filter((one) => one.id === id).at(-1)!.at - since;
      expect(last).toBeGreaterThan(commandTimeoutMs);
      expect(last).toBeLessThanOrEqual(commandTimeoutMs + 250);
    }
  });
});

describe('A hold that was handed off', () => {
  it('leaves no minHoldMs behind when an earlier request for it arrives only after all is over', async () => {
    const { clock, locks, wire, other } = setUp((_, ask) => ask());
    const acquire = wire.acquire.bind(wire);
    let tries = 0;
    wire.acquire = async (request) => {
      if ((tries += 1) > 1) return acquire(request);
      clock.setTimer(() => void acquire(request), 1_500);
      throw failure(true);
    };
    const lease = await clock.runUntil(locks.acquire('a', { minHoldMs: 1_000 }));
    await (await other.adopt(await lease.handOff())).release();
    await clock.advance(1_450);
    expect(await other.isLocked('a')).toBe(false);
    await clock.advance(400);
    expect(tries).toBeGreaterThan(1);
    expect(await other.isLocked('a')).toBe(false);
  });
});

describe('A hold that cannot be handed off', () => {
  it('is one of several locks of which a hold around it has one', async () => {
    const { locks, asked } = setUp((_, ask) => ask());
    await locks.withLock('a', async () => {
      const both = await locks.acquire(['a', 'b']);
      await expect(both.handOff()).rejects.toThrow('a nested hold cannot be handed off');
      both.assertHeld();
      await both.release();
    });
    expect(asked).toEqual([]);
  });

  it('is one in a store without tickets, where nothing can be adopted either', async () => {
    const fleet = new Fleet();
    const ticket = await (await fleet.process().locks.acquire('a')).handOff();
    const store = new (class extends StoreAround {
      override readonly tickets = undefined;
    })(fleet.store);
    const locks = new LockService({ store, process: 'redlock', clock: fleet.clock });
    const lease = await locks.acquire('b');
    await expect(lease.handOff()).rejects.toThrow(`Lock 'b': a Redlock cannot hand a hold off`);
    lease.assertHeld();
    await expect(locks.adopt(ticket)).rejects.toThrow(`Lock 'a': a Redlock cannot hand a hold off`);
    await expect(locks.adopt(ticket)).rejects.toBeInstanceOf(LockUsageError);
    await lease.release();
  });
});

describe('A ticket of another lock module', () => {
  it('is refused, though it is for the same store', async () => {
    const fleet = new Fleet();
    const ticket = await (await fleet.process().locks.acquire('a')).handOff();
    const jobs = new LockService({ store: new StoreAround(fleet.store), process: 'j', clock: fleet.clock, instance: 'jobs' });
    await expect(jobs.adopt(ticket)).rejects.toThrow(`this ticket is of the lock module 'default', but was given to the lock module 'jobs'`);
    await (await fleet.process().locks.adopt(ticket)).release();
  });
});
