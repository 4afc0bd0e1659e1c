/** What the store may answer to a hand-off: nothing, or that it forgot the hold; how long it is asked, and what is freed when there is no ticket. */
import { describe, expect, it, jest } from '@jest/globals';
import { pause } from '../../../lib/core/port/clock.js';
import { LockLostError, LockStoreError, LockUsageError } from '../../../lib/core/port/errors.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { LockEvent, Report } from '../../../lib/core/port/lock-events.js';
import type { LockOptions } from '../../../lib/core/port/lock-options.js';
import type { AcquireOutcome, AcquireRequest, RenewRequest } from '../../../lib/core/port/lock-store.js';
import { resolveDefaults } from '../../../lib/core/port/options.js';
import { readTicket } from '../../../lib/core/port/ticket.js';
import { LockService } from '../../../lib/lock.service.js';
import { alone, Fleet, eventsOf, gate } from '../../support/locks.js';
import { StoreAround } from '../../support/store-around.js';

const { commandTimeoutMs } = resolveDefaults();
const failure = (retryable: boolean): LockStoreError => new LockStoreError('the store is ill', { retryable });
const LOST: AcquireOutcome = { kind: 'gone', now: 0, memory: undefined };

/** A process whose hand-offs are answered by the test, and what its store was told. */
function setUp(answer: (request: AcquireRequest, ask: () => Promise<AcquireOutcome>) => Promise<AcquireOutcome>) {
  const { fleet, locks, wire } = alone();
  const asked: AcquireRequest[] = [];
  const broughtBack: RenewRequest[] = [];
  const released: { id: string; at: number }[] = [];
  const handOff = wire.handOff.bind(wire);
  wire.handOff = (request) => (asked.push(request), answer(request, () => handOff(request)));
  const renew = wire.renew.bind(wire);
  wire.renew = (request) => (broughtBack.push({ ...request, held: { ...request.held! } }), renew(request));
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
    expect(asked.map(({ key }) => key)).toEqual(['a', 'a', 'b']);
    expect(broughtBack.map(({ key, leaseMs }) => [key, leaseMs])).toEqual([['a', 7_999], ['b', 7_999]]);
    for (const { held } of broughtBack) expect(held).toMatchObject({ state: 'held', mode: 'write', trustedUntil: clock.now() + 7_999.5 });
    await (await other.adopt(ticket)).release();
  });

  it.each<[string, object, number, number]>([
    ['when the store says it again', {}, 0, 2],
    ['when the store says it only after the end of the lease', {}, 2_000, 1],
    ['when the store has not all of its locks again', { renew: async ({ key }: RenewRequest) => ({ kind: key === 'a' ? 'renewed' : 'lost' }) }, 0, 1],
    ['at once in a store that never forgets', { onDoubt: undefined }, 0, 1],
  ])('is lost %s', async (_when, store, answeredInMs, questions) => {
    const { clock, locks, wire, asked } = setUp(async () => (await pause(clock, answeredInMs), LOST));
    const lease = await locks.acquire(['a', 'b'], { leaseMs: 1_000 });
    Object.assign(wire, store);
    await expect(clock.runUntil(lease.handOff())).rejects.toBeInstanceOf(LockLostError);
    expect(asked).toHaveLength(questions);
  });
});

describe('A ticket of several locks', () => {
  it.each(['a', 'b'])('lasts as long as the first of its leases to end, and not as that of %s', async (longer) => {
    const { clock, locks } = setUp(async ({ key }, ask) => {
      const outcome = (await ask()) as Extract<AcquireOutcome, { kind: 'granted' }>;
      return { ...outcome, taken: { ...outcome.taken!, end: key === longer ? Infinity : 7 } };
    });
    const ticket = await clock.runUntil(locks.acquire(['a', 'b']).then((lease) => lease.handOff()));
    expect(readTicket(ticket).until).toBe(7);
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
    expect(new Set(asked.map(({ id }) => id)).size).toBe(1);
  });

  it('is what a look at the hold says afterwards, and not that the hold was handed off', async () => {
    const { locks } = setUp(() => Promise.reject(failure(false)));
    const told = eventsOf(locks);
    const lease = await locks.acquire('a');
    await expect(lease.handOff()).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false });
    expect(() => lease.assertHeld()).toThrow('its hand-off failed');
    expect(told.at(-1)).toMatchObject({ type: 'released', outcome: 'unknown' });
    const other = setUp((_request, ask) => ask());
    const given = await other.locks.acquire('a');
    await given.handOff();
    expect(() => given.assertHeld()).toThrow('this process handed it off');
  });

  it.each([
    ['a request for them may still act', false, commandTimeoutMs, commandTimeoutMs + 250],
    ['one of them may last', true, 20_000 + commandTimeoutMs - 250, 20_000 + commandTimeoutMs],
  ])('frees its lock and the ticket for as long as %s', async (_may, isCut, atLeast, atMost) => {
    const { clock, locks, wire, asked, released } = setUp(() => Promise.reject(failure(false)));
    const lease = await locks.acquire('a', { leaseMs: 20_000 });
    const since = clock.now();
    wire.cut = isCut;
    await expect(lease.handOff()).rejects.toBeInstanceOf(LockStoreError);
    await clock.advance(60_000);
    const [ticket, own] = [asked[0]!.id, asked[0]!.replaces];
    for (const id of [ticket, own]) {
      const last = released.filter((one) => one.id === id).at(-1)!.at - since;
      expect(last).toBeGreaterThan(atLeast);
      expect(last).toBeLessThanOrEqual(atMost);
    }
  });

  it('is given up by its release after as long as one request may take', async () => {
    const { clock, locks } = setUp(() => new Promise(() => {}));
    const lease = await locks.acquire('a');
    void lease.handOff();
    const since = clock.now();
    expect([await clock.runUntil(lease.release()), clock.now() - since]).toEqual(['unknown', commandTimeoutMs]);
  });

  it('takes nothing from a reader beside it', async () => {
    const { fleet, lease, beside } = await giver({ unanswered: 99, readers: 2, waitMs: 0 });
    await expect(fleet.clock.runUntil(lease.handOff())).rejects.toBeInstanceOf(LockStoreError);
    await fleet.clock.advance(1_000);
    expect(await beside?.verify()).toBe(true);
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
      override readonly ticketHome = undefined;
    })(fleet.store);
    const locks = new LockService({ store, process: 'redlock', clock: fleet.clock });
    const lease = await locks.acquire('b');
    await expect(lease.handOff()).rejects.toThrow(`Lock 'b': a Redlock cannot hand a hold off`);
    lease.assertHeld();
    await expect(locks.adopt(ticket)).rejects.toThrow(`Lock 'a': a Redlock cannot hand a hold off`);
    await expect(locks.adopt(ticket)).rejects.toBeInstanceOf(LockUsageError);
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

/** A hand-off that gets no answer: until when each try may act, and when it is made again. */
interface Giver {
  readonly fleet: Fleet;
  readonly lease: Lease;
  /** The second reader, if there is one. */
  readonly beside: Lease | undefined;
  /** What the store was asked, in order, and when. */
  readonly asked: readonly (AcquireRequest & { readonly at: number })[];
}

/** The first `unanswered` tries get no answer; whether they act is the test's. The hold that is handed off has all of `keys`, the other readers only 'k'. */
async function giver({ unanswered, acts = false, readers = 1, waitMs = 10_000, keys = ['k'] }: { unanswered: number; acts?: boolean; readers?: number; waitMs?: number; keys?: string[] }): Promise<Giver> {
  const { fleet, locks, wire } = alone({ commandTimeoutMs: 500 });
  const asked: (AcquireRequest & { readonly at: number })[] = [];
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
  return { fleet, lease: leases[0]!, beside: leases[1], asked };
}

describe('A hand-off without an answer', () => {
  it('is made again shortly after under the same ticket, and each try may act for commandTimeoutMs', async () => {
    const { fleet, lease, asked } = await giver({ unanswered: 2 });
    await fleet.clock.runUntil(lease.handOff());
    expect(asked).toHaveLength(3);
    expect(new Set(asked.map(({ id }) => id)).size).toBe(1);
    expect(asked.map(({ at, notAfter }) => Math.round(notAfter - at))).toEqual([500, 500, 500]);
    expect(asked[2]!.at - asked[0]!.at).toBeLessThan(400);
  });

  it.each([[true], [false]])('is made again only when the try before can act no more, beside readers who go on with the lease; the try had acted: %p', async (acts) => {
    const { fleet, lease, asked } = await giver({ unanswered: 1, acts, readers: 2 });
    const ticket = await fleet.clock.runUntil(lease.handOff({ withinMs: 20_000 }));
    expect(asked).toHaveLength(2);
    expect(asked[1]!.at).toBeGreaterThan(asked[0]!.notAfter);
    const [worker, other] = [fleet.process().locks, fleet.process().locks];
    await worker.adopt(ticket);
    // The copy of the first try, which the network had kept.
    await expect(fleet.store.acquire(asked[0]!)).rejects.toThrow('too late to be served');
    await expect(other.adopt(ticket)).rejects.toThrow('adopted already');
    expect((await other.inspect('k')).holders).toHaveLength(2);
  });

  it('of several locks is made again as late when readers go on with one of them', async () => {
    const { fleet, lease, asked } = await giver({ unanswered: 1, readers: 2, keys: ['k', 'l'] });
    await fleet.clock.runUntil(lease.handOff({ withinMs: 20_000 }));
    expect(asked.map(({ key, takesOver }) => [key, takesOver])).toEqual([['k', 'beside'], ['k', 'beside'], ['l', 'hold']]);
    expect(asked[1]!.at).toBeGreaterThan(asked[0]!.notAfter);
  });
});

/** Work under an adopted hold that fails, and whose next attempt goes on under the lock. */
const failed = new Error('the provider failed');

const fails = async (): Promise<never> => Promise.reject(failed);

/** A ticket, and two processes that may bring it. */
async function handedOff(keys: string | string[] = 'k', options: LockOptions = {}, report?: Report, withinMs?: number) {
  const fleet = new Fleet();
  const ticket = await (await fleet.process().locks.acquire(keys, options)).handOff({ withinMs });
  return { fleet, ticket, worker: fleet.process({}, undefined, report), other: fleet.process() };
}

describe("A ticket with onError: 'handBack'", () => {
  it('is good again after work that failed, for withinMs and beyond its first end, and nobody was in between', async () => {
    const fleet = new Fleet();
    const [giver, worker, next, stranger] = [fleet.process(), fleet.process(), fleet.process(), fleet.process()];
    const given = await giver.locks.acquire('order:1');
    const waiting = stranger.locks.acquire('order:1', { waitMs: 600_000 });
    let strangers = 0;
    void waiting.then(() => strangers++);
    const ticket = await fleet.clock.runUntil(given.handOff({ withinMs: 3_000 }));
    const fences: number[] = [given.fence];
    const attempt = ({ locks }: typeof worker, work: () => Promise<unknown>): Promise<unknown> =>
      fleet.clock.runUntil(
        locks.withAdopted(ticket, { onError: 'handBack', withinMs: 20_000 }, async ({ fence }) => {
          fences.push(fence);
          return work();
        }),
      );
    await expect(attempt(worker, fails)).rejects.toBe(failed);
    expect((await next.locks.inspect('order:1')).holders).toMatchObject([{ handedOff: true }]);
    await fleet.clock.advance(15_000);
    await expect(attempt(next, fails)).rejects.toBe(failed);
    await fleet.clock.advance(15_000);
    expect(strangers).toBe(0);
    expect(await attempt(worker, async () => 'paid')).toBe('paid');
    expect(fences).toEqual([...new Set(fences)].sort((a, b) => a - b));
    await (await fleet.clock.runUntil(waiting)).release();
    expect(fleet.store.size).toBe(0);
  });

  it('is good for one attempt at a time', async () => {
    const { fleet, ticket, worker, other } = await handedOff();
    const { promise, open } = gate();
    const first = worker.locks.withAdopted(ticket, { onError: 'handBack' }, () => promise);
    await fleet.clock.advance(10);
    await expect(other.locks.withAdopted(ticket, { onError: 'handBack' }, fails)).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'ticket-used' });
    open();
    await first;
    expect(fleet.store.size).toBe(0);
  });

  it('comes too late after the withinMs of its hand-back, and the lock is free then', async () => {
    const { fleet, ticket, worker } = await handedOff('k', {}, undefined, 1_000);
    await expect(worker.locks.withAdopted(ticket, { onError: 'handBack', withinMs: 2_000 }, fails)).rejects.toBe(failed);
    await fleet.clock.advance(2_100);
    await expect(worker.locks.withAdopted(ticket, { onError: 'handBack' }, fails)).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'ticket-late' });
    expect((await worker.locks.inspect('k')).holders).toEqual([]);
  });

  it('keeps several locks, and their mode', async () => {
    const { fleet, ticket, worker } = await handedOff(['a', 'b'], { mode: 'read' });
    const attempt = (work: () => Promise<unknown>): Promise<unknown> => worker.locks.withAdopted(ticket, { onError: 'handBack' }, work);
    await expect(attempt(fails)).rejects.toBe(failed);
    expect((await worker.locks.inspect('b')).mode).toBe('read');
    expect(await attempt(async () => worker.locks.currentLease()!.keys)).toEqual(['a', 'b']);
    expect(fleet.store.size).toBe(0);
  });

  it('is not good again after work that ended well, or whose lease was lost', async () => {
    const fleet = new Fleet();
    const report = jest.fn<Report>();
    const [giver, worker] = [fleet.process(), fleet.process(undefined, undefined, report)];
    const first = await (await giver.locks.acquire('k')).handOff();
    await worker.locks.withAdopted(first, { onError: 'handBack' }, () => 'done');
    const second = await (await giver.locks.acquire('k')).handOff();
    const lost = worker.locks.withAdopted(second, { onError: 'handBack' }, async () => {
      await giver.locks.forceRelease('k');
      throw failed;
    });
    await expect(fleet.clock.runUntil(lost)).rejects.toBeInstanceOf(LockLostError);
    expect(report.mock.calls.map(([{ message }]) => message)).toEqual([expect.stringMatching(/It was held for \d+ ms\.$/)]);
    for (const ticket of [first, second]) await expect(worker.locks.adopt(ticket)).rejects.toMatchObject({ reason: 'ticket-used' });
  });

  it('releases the lock where calls are still inside the hold, because they would go on without it, and says so', async () => {
    const report = jest.fn<Report>();
    const { fleet, ticket, worker } = await handedOff('k', {}, report);
    const { promise, open } = gate();
    let inside: Promise<unknown> | undefined;
    const work = worker.locks.withAdopted(ticket, { onError: 'handBack' }, async () => {
      inside = worker.locks.withLock('k', () => promise);
      throw failed;
    });
    await expect(work).rejects.toBe(failed);
    const { holders } = await worker.locks.inspect('k');
    expect(holders.map(({ handedOff }) => handedOff)).toEqual([undefined]);
    const message = expect.stringMatching(/^Lock 'k' is not with its ticket again, so the next attempt must take it anew\. Lock 'k'/);
    expect(report.mock.calls).toEqual([[{ kind: 'hand-back', level: 'warning', message }]]);
    open();
    await inside;
    await fleet.clock.advance(10);
    expect(fleet.store.size).toBe(0);
  });

  it('tells the failure of the work, and the events that the hold was handed off', async () => {
    const { ticket, worker } = await handedOff();
    const events: LockEvent['type'][] = [];
    worker.locks.events.subscribe(({ type }) => events.push(type));
    await expect(worker.locks.withAdopted(ticket, { onError: 'handBack' }, fails)).rejects.toBe(failed);
    expect(events).toEqual(['adopted', 'handedOff']);
  });

  it('waits until an adoption that got no answer can act no more: it would adopt the ticket for a hold that is over', async () => {
    const { fleet, ticket, worker, other: next } = await handedOff(['k', 'l']);
    worker.wire.deaf = true;
    const [since, work] = [fleet.clock.now(), worker.locks.withAdopted(ticket, { onError: 'handBack' }, fails)];
    await fleet.clock.advance(100);
    worker.wire.deaf = false;
    await expect(fleet.clock.runUntil(work)).rejects.toBe(failed);
    expect(fleet.clock.now() - since).toBeGreaterThan(2_000);
    expect(fleet.clock.now() - since).toBeLessThan(2_300);
    expect(await next.locks.withAdopted(ticket, { onError: 'handBack' }, () => 'paid')).toBe('paid');
  });

  it.each<[object, string]>([
    [{ onError: 'handback' }, "expected onError to be 'release' or 'handBack', got 'handback'"],
    [{ withinMs: 5_000 }, "withinMs says how long a ticket is good that was handed back, so it needs onError: 'handBack'"],
    [{ onError: 'handBack', withinMs: 0 }, "Lock 'k': expected withinMs to be a whole number from 1 to 60000, got 0"],
    [{ onError: 'handBack', withinMs: 60_001 }, 'expected withinMs to be a whole number from 1 to 60000, got 60001'],
  ])('refuses %p, and the ticket is as good as before', async (options, words) => {
    const { locks, wire } = alone();
    const ticket = await (await locks.acquire('k')).handOff();
    const refused = locks.withAdopted(ticket, options, () => 0);
    await expect(refused).rejects.toBeInstanceOf(LockUsageError);
    await expect(refused).rejects.toThrow(words);
    expect(wire.sent.adopt).toBe(0);
    await (await locks.adopt(ticket)).release();
  });
});
