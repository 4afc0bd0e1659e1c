/** What the store may answer to an adoption, and when: late, after a sleep, while it recovers, or not at all. */
import { describe, expect, it } from '@jest/globals';
import { LockLostError, LockStoreError } from '../../../lib/core/port/errors.js';
import type { AdoptOutcome, AdoptRequest } from '../../../lib/core/port/ticket-store.js';
import { Fleet, gate, type Wire } from '../../support/locks.js';

interface Worker {
  readonly fleet: Fleet;
  readonly locks: ReturnType<Fleet['process']>['locks'];
  readonly wire: Wire;
  readonly other: ReturnType<Fleet['process']>['locks'];
  /** What the store was asked, in order. */
  readonly asked: AdoptRequest[];
  readonly ticketOf: (...keys: string[]) => Promise<string>;
}

/** A process that brings tickets, and one that wants the locks beside it. */
function setUp(answer?: (request: AdoptRequest, ask: () => Promise<AdoptOutcome>) => Promise<AdoptOutcome>): Worker {
  const fleet = new Fleet();
  const { locks, wire } = fleet.process();
  const asked: AdoptRequest[] = [];
  const adopt = wire.adopt.bind(wire);
  wire.adopt = (request) => {
    asked.push(request);
    return answer ? answer(request, () => adopt(request)) : adopt(request);
  };
  const giver = fleet.process().locks;
  const ticketOf = async (...keys: string[]): Promise<string> => (await giver.acquire(keys.length === 1 ? keys[0]! : keys)).handOff({ withinMs: 30_000 });
  return { fleet, locks, wire, other: fleet.process().locks, asked, ticketOf };
}

const failure = (retryable: boolean): LockStoreError => new LockStoreError('the store is ill', { retryable });
const gone = (how: Partial<Extract<AdoptOutcome, { kind: 'gone' }>> = {}): AdoptOutcome => ({ kind: 'gone', key: 'k', now: 0, memory: undefined, ...how });

describe('An adoption', () => {
  it('asks for a lease no longer than the hold may last', async () => {
    const { locks, asked, ticketOf } = setUp();
    await (await locks.adopt(await ticketOf('a'), { leaseMs: 9_000, maxHoldMs: 2_000 })).release();
    await (await locks.adopt(await ticketOf('b'), { leaseMs: 2_000, maxHoldMs: 9_000 })).release();
    expect(asked.map(({ leaseMs }) => leaseMs)).toEqual([2_000, 2_000]);
  });

  it('is asked for again under the same ids after pauses up to 200 ms, each time to be acted on a little later', async () => {
    const { fleet, locks, asked, ticketOf } = setUp(() => Promise.reject(failure(true)));
    const start = fleet.clock.now();
    await expect(fleet.clock.runUntil(locks.adopt(await ticketOf('k'), { waitMs: 5_000 }))).rejects.toThrow('the store is ill');
    expect(fleet.clock.now() - start).toBe(5_000);
    expect(asked.length).toBeGreaterThan(25);
    expect(asked.length).toBeLessThan(60);
    expect(new Set(asked.map(({ holds }) => holds[0]!.id)).size).toBe(1);
    const tries = asked.map(({ notAfter }) => notAfter);
    expect(tries).toEqual([...tries].sort((a, b) => a - b));
    expect(tries[1]! - tries[0]!).toBeLessThanOrEqual(20);
  });

  it('is given up at once when the store says that asking again is of no use, or when the call does not wait', async () => {
    for (const [retryable, waitMs] of [[false, 5_000], [true, 0]] as const) {
      const { fleet, locks, asked, ticketOf } = setUp(() => Promise.reject(failure(retryable)));
      await expect(fleet.clock.runUntil(locks.adopt(await ticketOf('k'), { waitMs }))).rejects.toBeInstanceOf(LockStoreError);
      expect(asked).toHaveLength(1);
    }
  });

  it('waits for the first answer 800 ms at least, and says that there was none', async () => {
    for (const [waitMs, forMs] of [[0, 800], [900, 900]] as const) {
      const { fleet, locks, ticketOf } = setUp(() => new Promise(() => {}));
      const ticket = await ticketOf('k');
      const start = fleet.clock.now();
      await expect(fleet.clock.runUntil(locks.adopt(ticket, { waitMs }))).rejects.toThrow(`${forMs} ms`);
      expect(fleet.clock.now() - start).toBe(forMs);
    }
  });

  it('asks again after the pause that a store names while it recovers, and not for a call that does not wait', async () => {
    let answers = 0;
    const { fleet, locks, asked, ticketOf } = setUp(async (_, ask) => ((answers += 1), answers === 1 ? { kind: 'recovering', retryInMs: 300, cause: failure(true) } : ask()));
    const [ticket, start] = [await ticketOf('k'), fleet.clock.now()];
    const lease = await fleet.clock.runUntil(locks.adopt(ticket, { waitMs: 5_000 }));
    expect([fleet.clock.now() - start, asked.length]).toEqual([300, 2]);
    await lease.release();
    answers = 0;
    await expect(locks.adopt(await ticketOf('k'), { waitMs: 0 })).rejects.toThrow('the store is ill');
  });

  it('says that the ticket came too late only after its end on the clock of the store', async () => {
    let now = 0;
    const { fleet, locks, ticketOf } = setUp(async () => gone({ now }));
    const ticket = await ticketOf('k');
    const until = fleet.clock.now() + 30_000;
    now = until;
    await expect(locks.adopt(ticket)).rejects.toThrow('adopted already');
    now = until + 7;
    await expect(locks.adopt(ticket)).rejects.toThrow('7 ms after its end');
  });

  it.each([
    { memories: ['m', 'n'], key: 'a', says: 'restarted, replaced or flushed' },
    { memories: ['m', 'm'], key: 'a', says: 'adopted already' },
    { memories: [undefined, 'n'], key: 'a', says: 'adopted already' },
    { memories: ['m', undefined], key: 'a', says: 'adopted already' },
    { memories: ['m', 'n'], key: 'b', says: 'adopted already' },
  ])('whose ticket is gone for $key in memory $memories says: $says', async ({ memories: [before, after], key, says }) => {
    const { fleet, locks, ticketOf } = setUp(async () => gone({ key, memory: after }));
    const handOff = fleet.store.tickets.handOff.bind(fleet.store.tickets);
    fleet.store.tickets.handOff = async (request) => ({ ...(await handOff(request)), memory: before }) as Awaited<ReturnType<typeof handOff>>;
    await expect(locks.adopt(await ticketOf('a', 'b'))).rejects.toThrow(says);
  });

  it('of several locks of which one is gone gives the ticket back with the others, and one whose first is gone leaves them to who has them', async () => {
    for (const [key, free] of [['b', true], ['a', false]] as const) {
      const { fleet, locks, other, ticketOf } = setUp(async () => gone({ key }));
      await expect(locks.adopt(await ticketOf('a', 'b'))).rejects.toBeInstanceOf(LockLostError);
      await fleet.clock.advance(1_000);
      expect([await other.isLocked('a'), await other.isLocked('b')]).toEqual([!free, !free]);
    }
  });

  it('is asked for once more when the machine slept before its answer came, and trusts what is left then', async () => {
    const answer = gate();
    const { fleet, locks, asked, ticketOf } = setUp(async (_, ask) => {
      const outcome = await ask();
      await answer.promise;
      return outcome;
    });
    const adopting = locks.adopt(await ticketOf('k'), { leaseMs: 9_000 });
    await fleet.clock.advance(300);
    fleet.clock.sleepMachine(4_000);
    answer.open();
    const lease = await fleet.clock.runUntil(adopting);
    expect(asked).toHaveLength(2);
    await lease.release();
  });

  it('whose answer comes when nothing is left of its lease is given back, whichever lock that is of', async () => {
    for (const late of [0, 1]) {
      const { fleet, locks, other, ticketOf } = setUp(async (_, ask) => {
        const outcome = await ask();
        if (outcome.kind !== 'adopted') return outcome;
        return { ...outcome, holds: outcome.holds.map((hold, n) => (n === late ? { ...hold, grant: { ...hold.grant, trustedUntil: fleet.clock.now() } } : hold)) };
      });
      await expect(locks.adopt(await ticketOf('a', 'b'))).rejects.toBeInstanceOf(LockStoreError);
      await fleet.clock.advance(100);
      expect([await other.isLocked('a'), await other.isLocked('b')]).toEqual([false, false]);
    }
  });

  it('that was given up is given back when its answer comes after all, as often as the answer may act behind the release', async () => {
    for (const ending of ['answer', 'failure']) {
      const answer = gate();
      const { fleet, locks, wire, other, ticketOf } = setUp(async (_, ask) => {
        await answer.promise;
        const outcome = await ask();
        if (ending === 'failure') throw failure(true);
        return outcome;
      });
      const adopting = locks.adopt(await ticketOf('k'), { waitMs: 0, leaseMs: 20_000 });
      adopting.catch(() => {});
      await fleet.clock.advance(1_000);
      await expect(adopting).rejects.toBeInstanceOf(LockStoreError);
      const before = wire.sent.release;
      answer.open();
      await fleet.clock.advance(20);
      expect(wire.sent.release).toBeGreaterThan(before);
      expect(await other.isLocked('k')).toBe(false);
    }
  });

  it('that ended leaves no timer, no listener and no entry behind', async () => {
    const { fleet, locks, ticketOf } = setUp();
    const stop = new AbortController();
    const lease = await locks.adopt(await ticketOf('k'), { signal: stop.signal });
    await lease.release();
    stop.abort(new Error('too late to matter'));
    await fleet.clock.advance(60_000);
    expect(fleet.clock.pendingTimers).toBe(0);
    expect(fleet.store.size).toBe(0);
  });

  it('whose signal has aborted before asks nothing of the store', async () => {
    const { locks, asked, ticketOf } = setUp();
    await expect(locks.adopt(await ticketOf('k'), { signal: AbortSignal.abort(new Error('never mind')) })).rejects.toThrow('never mind');
    expect(asked).toEqual([]);
  });
});
