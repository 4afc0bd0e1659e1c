/** What the store may answer to an adoption, and when: late, after a sleep, while it recovers, or not at all. */
import { describe, expect, it, jest } from '@jest/globals';
import { pause } from '../../../lib/core/port/clock.js';
import { LockLostError, LockStoreError } from '../../../lib/core/port/errors.js';
import type { AcquireOutcome, AcquireRequest } from '../../../lib/core/port/lock-store.js';
import { resolveDefaults } from '../../../lib/core/port/options.js';
import { alone, Fleet, gate, type Wire } from '../../support/locks.js';

interface Worker {
  readonly fleet: Fleet;
  readonly locks: ReturnType<Fleet['process']>['locks'];
  readonly wire: Wire;
  readonly other: ReturnType<Fleet['process']>['locks'];
  /** What the store was asked, in order. */
  readonly asked: AcquireRequest[];
  readonly ticketOf: (...keys: string[]) => Promise<string>;
}

/** A process that brings tickets, and one that wants the locks beside it. */
function setUp(answer?: (request: AcquireRequest, ask: () => Promise<AcquireOutcome>) => Promise<AcquireOutcome>): Worker {
  const { fleet, locks, wire } = alone();
  const asked: AcquireRequest[] = [];
  const adopt = wire.adopt.bind(wire);
  wire.adopt = (request) => {
    asked.push({ ...request });
    return answer ? answer(request, () => adopt(request)) : adopt(request);
  };
  const giver = fleet.process().locks;
  const ticketOf = async (...keys: string[]): Promise<string> => (await giver.acquire(keys.length === 1 ? keys[0]! : keys)).handOff({ withinMs: 30_000 });
  return { fleet, locks, wire, other: fleet.process().locks, asked, ticketOf };
}

const failure = (retryable: boolean): LockStoreError => new LockStoreError('the store is ill', { retryable });
const gone = (memory?: string): AcquireOutcome => ({ kind: 'gone', now: 0, memory });

describe('An adoption', () => {
  it('asks for a lease no longer than the hold may last', async () => {
    const { locks, asked, ticketOf } = setUp();
    await (await locks.adopt(await ticketOf('a'), { leaseMs: 9_000, maxHoldMs: 2_000 })).release();
    await (await locks.adopt(await ticketOf('b'), { leaseMs: 2_000, maxHoldMs: 9_000 })).release();
    expect(asked.map(({ leaseMs }) => leaseMs)).toEqual([2_000, 2_000]);
  });

  const groupOf = (): number => 0;
  it.each([
    [['k'], undefined, {}, false], [['k', 'l'], undefined, {}, false], [['k'], groupOf, {}, false], [['k', 'l'], groupOf, {}, true], [['k'], undefined, { onError: 'handBack' }, true],
  ] as const)('of %j is late at the end that the ticket names, unless its locks may end at other times or later', async (keys, groups, options, isOpen) => {
    const { fleet, locks, wire } = alone({}, groups);
    const ticket = await (await fleet.process().locks.acquire([...keys])).handOff();
    const asked = jest.spyOn(wire, 'adopt');
    await locks.withAdopted(ticket, options, () => {});
    expect(asked.mock.calls.map(([{ ticketUntil }]) => ticketUntil === Number.MAX_SAFE_INTEGER)).toEqual(keys.map(() => isOpen));
  });

  it.each(['k', ['k', 'l']])('of %j inside a hold of one of these locks is a hold of its own', async (key) => {
    const { fleet, locks } = alone();
    const ticket = await (await fleet.process().locks.acquire(key, { mode: 'read' })).handOff();
    await locks.withLock('k', { mode: 'read' }, async (outer) => {
      const adopted = await locks.adopt(ticket);
      expect(adopted.fences.get('k')).not.toBe(outer.fence);
      await adopted.release();
    });
  });

  it('is asked for again under the same ids after pauses up to 200 ms, each time to be acted on a little later', async () => {
    const { fleet, locks, asked, ticketOf } = setUp(() => Promise.reject(failure(true)));
    const start = fleet.clock.now();
    await expect(fleet.clock.runUntil(locks.adopt(await ticketOf('k'), { waitMs: 5_000 }))).rejects.toThrow('the store is ill');
    expect(fleet.clock.now() - start).toBe(5_000);
    expect(asked.length).toBeGreaterThan(25);
    expect(asked.length).toBeLessThan(60);
    expect(new Set(asked.map(({ id }) => id)).size).toBe(1);
    const tries = asked.map(({ notAfter }) => notAfter);
    expect(tries).toEqual([...tries].sort((a, b) => a - b));
    expect(tries[1]! - tries[0]!).toBeLessThanOrEqual(20);
  });

  it('that waits keeps the process alive until it has ended', async () => {
    const { fleet, locks, ticketOf } = setUp(() => Promise.reject(failure(true)));
    const ticket = await ticketOf('k');
    await fleet.clock.advance(5_000);
    expect(fleet.clock.isKeptAlive).toBe(false);
    const adopting = locks.adopt(ticket, { waitMs: 1_500 });
    const refused = expect(adopting).rejects.toThrow('the store is ill');
    await fleet.clock.advance(1_400);
    expect(fleet.clock.isKeptAlive).toBe(true);
    await fleet.clock.advance(1_000);
    await refused;
    expect(fleet.clock.isKeptAlive).toBe(false);
  });

  it('is given up at once when the store says that asking again is of no use, or when the call does not wait', async () => {
    for (const [retryable, waitMs] of [[false, 5_000], [true, 0]] as const) {
      const { fleet, locks, asked, ticketOf } = setUp(() => Promise.reject(failure(retryable)));
      await expect(fleet.clock.runUntil(locks.adopt(await ticketOf('k'), { waitMs }))).rejects.toBeInstanceOf(LockStoreError);
      expect(asked).toHaveLength(1);
    }
  });

  it('waits for the first answer 800 ms at least, and says that there was none', async () => {
    for (const [waitMs, forMs] of [[0, 800], [100, 800], [900, 900]] as const) {
      const { fleet, locks, ticketOf } = setUp(() => new Promise(() => {}));
      const ticket = await ticketOf('k');
      const start = fleet.clock.now();
      await expect(fleet.clock.runUntil(locks.adopt(ticket, { waitMs }))).rejects.toThrow(waitMs === 0 ? 'did not respond in time' : `did not respond within ${waitMs} ms`);
      expect(fleet.clock.now() - start).toBe(forMs);
    }
  });

  it.each([
    { memories: ['m', 'n'], key: 'a', says: 'restarted, replaced or flushed' },
    { memories: ['m', 'm'], key: 'a', says: 'adopted already' },
    { memories: [undefined, 'n'], key: 'a', says: 'adopted already' },
    { memories: ['m', undefined], key: 'a', says: 'adopted already' },
    { memories: ['m', 'n'], key: 'b', says: 'adopted already' },
  ])('whose ticket is gone for $key in memory $memories says: $says', async ({ memories: [before, after], key, says }) => {
    const { fleet, locks, ticketOf } = setUp(async (request, ask) => (request.key === key ? gone(after) : ask()));
    const acquire = fleet.store.acquire.bind(fleet.store);
    fleet.store.acquire = async (request) => {
      const outcome = await acquire(request);
      return request.takesOver === 'hold' && outcome.kind === 'granted' ? { ...outcome, grant: { ...outcome.grant, memory: before } } : outcome;
    };
    await expect(locks.adopt(await ticketOf('a', 'b'))).rejects.toThrow(says);
  });

  it('of several locks of which one is gone gives the ticket back with the others, after an outage too, and one whose first is gone leaves them to who has them', async () => {
    for (const [key, free] of [['b', true], ['a', false]] as const) {
      const { fleet, locks, other, ticketOf, wire } = setUp(async (request, ask) => (request.key === key ? ((wire.cut = true), gone()) : ask()));
      await expect(fleet.clock.runUntil(locks.adopt(await ticketOf('a', 'b'), { leaseMs: 100 }))).rejects.toBeInstanceOf(LockLostError);
      await fleet.clock.advance(5_000);
      wire.cut = false;
      await fleet.clock.advance(1_000);
      expect([await other.isLocked('a'), await other.isLocked('b')]).toEqual([!free, !free]);
    }
  });

  it('of several locks of which one gets no answer in time gives the others back, because nobody can adopt the ticket any more', async () => {
    const { fleet, locks, other, ticketOf } = setUp((request, ask) => (request.key === 'b' ? Promise.reject(failure(true)) : ask()));
    await expect(fleet.clock.runUntil(locks.adopt(await ticketOf('a', 'b'), { waitMs: 500 }))).rejects.toBeInstanceOf(LockStoreError);
    await fleet.clock.advance(1_000);
    expect([await other.isLocked('a'), await other.isLocked('b')]).toEqual([false, false]);
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
    await fleet.clock.runUntil(adopting);
    expect(asked).toHaveLength(2);
  });

  it('is never told that the lock is busy, whatever came before the store fell silent', async () => {
    const { fleet, locks, asked, ticketOf } = setUp(async (_, ask) => {
      if (asked.length === 1) return { kind: 'recovering', retryInMs: 10, cause: failure(true) };
      if (asked.length > 2) return new Promise(() => {});
      const outcome = await ask();
      await pause(fleet.clock, 5);
      fleet.clock.sleepMachine(1_500);
      return outcome;
    });
    await expect(fleet.clock.runUntil(locks.adopt(await ticketOf('k'), { waitMs: 3_000 }))).rejects.toThrow('did not respond within 3000 ms');
    expect(asked).toHaveLength(3);
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
});

describe('What an adoption gives back', () => {
  /** The releases that reach the store, each with its instant, and whether the store answers them. */
  const releasesOf = ({ fleet, wire }: Worker): { id: string; at: number }[] => {
    const releases: { id: string; at: number }[] = [];
    const release = wire.release.bind(wire);
    wire.release = (request) => (releases.push({ id: request.id, at: fleet.clock.now() }), release(request));
    return releases;
  };
  /** Gives an adoption up before its answer comes, and tells what was released after the answer and what the ticket is good for then. */
  const givenUp = async (answerWith: (ask: () => Promise<AcquireOutcome>) => Promise<AcquireOutcome>): Promise<{ worker: Worker; after: string[]; ticket: string }> => {
    const answer = gate();
    const worker = setUp(async (_, ask) => (await answer.promise, answerWith(ask)));
    const [releases, stop] = [releasesOf(worker), new AbortController()];
    const ticket = await worker.ticketOf('k');
    const adopting = worker.locks.adopt(ticket, { signal: stop.signal });
    stop.abort(new Error('enough'));
    await expect(adopting).rejects.toThrow('enough');
    await worker.fleet.clock.advance(100);
    releases.length = 0;
    answer.open();
    await worker.fleet.clock.advance(1_000);
    return { worker, after: releases.map(({ id }) => id), ticket };
  };

  it('is its own hold alone when it was given up and adopted after all', async () => {
    const { worker, after } = await givenUp((ask) => ask());
    expect(after).toEqual([worker.asked[0]!.id]);
  });

  it('keeps what is left of its minHoldMs, because work had begun before it was handed off', async () => {
    const answer = gate();
    const { fleet, locks, other } = setUp(async (_, ask) => (await answer.promise, ask()));
    const giver = fleet.process().locks;
    const stop = new AbortController();
    const adopting = locks.adopt(await (await giver.acquire('k', { minHoldMs: 5_000 })).handOff(), { signal: stop.signal });
    stop.abort(new Error('enough'));
    await expect(adopting).rejects.toThrow('enough');
    answer.open();
    await fleet.clock.advance(4_000);
    expect(await other.isLocked('k')).toBe(true);
    await fleet.clock.advance(1_100);
    expect(await other.isLocked('k')).toBe(false);
  });

  it('keeps it also of several locks of which one is gone', async () => {
    const { fleet, locks, other } = setUp(async (request, ask) => (request.key === 'b' ? gone() : ask()));
    const ticket = await (await fleet.process().locks.acquire(['a', 'b'], { minHoldMs: 5_000 })).handOff();
    await expect(locks.adopt(ticket)).rejects.toBeInstanceOf(LockLostError);
    await fleet.clock.advance(4_000);
    expect(await other.isLocked('a')).toBe(true);
    await fleet.clock.advance(1_100);
    expect([await other.isLocked('a'), await other.isLocked('b')]).toEqual([false, false]);
  });

  it('leaves the ticket to be adopted when it was given up and its request never reached the store', async () => {
    const { worker, ticket } = await givenUp(() => Promise.reject(failure(true)));
    await (await worker.other.adopt(ticket)).release();
  });

  it('is free though its request, of which nobody heard, reaches the store after it was given up', async () => {
    let arrives = (): void => {};
    const { fleet, locks, other, ticketOf } = setUp((_, ask) => {
      arrives = () => void ask();
      return Promise.reject(failure(true));
    });
    await expect(locks.adopt(await ticketOf('k'), { waitMs: 0, leaseMs: 20_000 })).rejects.toBeInstanceOf(LockStoreError);
    await fleet.clock.advance(500);
    arrives();
    await fleet.clock.advance(2_500);
    expect(await other.isLocked('k')).toBe(false);
  });

  it('is tried again until it must have ended by itself: its lease, its grace, and the time of a request', async () => {
    const worker = setUp(() => Promise.reject(failure(true)));
    const { fleet, locks, wire, ticketOf } = worker;
    const releases = releasesOf(worker);
    const ticket = await ticketOf('k');
    const since = fleet.clock.now();
    wire.cut = true;
    await expect(locks.adopt(ticket, { waitMs: 0, leaseMs: 5_000, graceMs: 3_000 })).rejects.toBeInstanceOf(LockStoreError);
    await fleet.clock.advance(30_000);
    const { commandTimeoutMs } = resolveDefaults();
    expect(releases.at(-1)!.at - since).toBeGreaterThan(8_000 + commandTimeoutMs - 300);
    expect(releases.at(-1)!.at - since).toBeLessThanOrEqual(8_000 + commandTimeoutMs);
  });
});
