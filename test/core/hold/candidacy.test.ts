/** One candidate in detail: what counts as a failure of its function, how long it rests, what it says in the log, and when it has stopped. */
import { describe, expect, it, jest } from '@jest/globals';
import type { Lease, LeadOptions, Leadership, LockEvent } from '../../../lib/index.js';
import { LockTimeoutError } from '../../../lib/core/port/errors.js';
import type { Finding } from '../../../lib/core/port/lock-events.js';
import { Fleet, gate } from '../../support/locks.js';

function setUp() {
  const fleet = new Fleet();
  const log: string[] = [];
  const { locks, wire } = fleet.process({}, undefined, ({ message }: Finding) => log.push(message));
  const events: LockEvent[] = [];
  locks.events.subscribe((event) => events.push(event));
  return { fleet, clock: fleet.clock, locks, wire, log, events, other: fleet.process().locks };
}

/** Leads with a function that ends when its term is over, in the way of the test. */
function leads({ locks }: ReturnType<typeof setUp>, end: (term: Lease) => unknown, options?: LeadOptions): { leadership: Leadership; terms: Lease[] } {
  const terms: Lease[] = [];
  const leadership = locks.lead('indexer', async (term) => {
    terms.push(term);
    if (!term.signal.aborted) await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
    await end(term);
  }, options);
  return { leadership, terms };
}

/** Leads with a function that goes on until the test says so, whatever its signal says. */
function leadsOn({ locks }: ReturnType<typeof setUp>): { leadership: Leadership; finish: () => void } {
  const { promise, open } = gate();
  return { leadership: locks.lead('indexer', () => promise), finish: () => open() };
}

describe('The function of a leader whose term was lost', () => {
  const failures: [string, (term: Lease) => unknown][] = [
    ['an error of its own', () => new RangeError('disk full')],
    ['an error with another cause', () => new Error('disk full', { cause: new Error('no space') })],
    ['an error about another lock', () => new LockTimeoutError('busy', { key: 'other', waitMs: 0 })],
    ['an object that only looks like an error of its lock', ({ key }) => ({ key })],
    ['text', () => 'disk full'],
    ['nothing', () => null],
  ];
  it.each(failures)('failed when it throws %s', async (_what, error) => {
    const on = setUp();
    const { leadership } = leads(on, (term) => Promise.reject(error(term)));
    await on.clock.settle();
    await on.other.forceRelease('leader:indexer');
    await on.clock.settle();
    expect(on.events.filter(({ type }) => type === 'termFailed')).toHaveLength(1);
    expect(on.log.filter((line) => line.includes('the function of the leader failed'))).toHaveLength(1);
    await leadership.stop();
  });

  it('has this process stand again at the same instant when it ends because of that, by an error or without', async () => {
    for (const end of [({ signal }: Lease) => Promise.reject(signal.reason), () => undefined]) {
      const on = setUp();
      const { leadership } = leads(on, end);
      await on.clock.settle();
      await on.other.forceRelease('leader:indexer');
      const next = await on.other.acquire('leader:indexer');
      await on.clock.settle();
      expect((await on.other.inspect('leader:indexer')).waiters).toHaveLength(1);
      await next.release();
      await leadership.stop();
    }
  });
});

describe('The function of a leader whose term goes on', () => {
  it('failed also when it throws what the end of a term would be', async () => {
    const { clock, locks, events } = setUp();
    const leadership = locks.lead('indexer', () => Promise.reject(Object.assign(new Error('aborted'), { name: 'AbortError' })));
    await clock.settle();
    expect(events.map(({ type }) => type)).toContain('termFailed');
    await leadership.stop();
  });

  it('makes it no leader any more from the moment at which it released the term', async () => {
    const { clock, locks, other } = setUp();
    const { promise, open } = gate();
    const leadership = locks.lead('indexer', async (term) => {
      await term.release();
      await promise;
    });
    await clock.settle();
    expect(leadership.isLeader).toBe(false);
    await (await other.acquire('leader:indexer', { waitMs: 0 })).release();
    open();
    await leadership.stop();
  });
});

describe('A rest', () => {
  it('is longer by chance, and by a quarter at most', async () => {
    const { clock, locks } = setUp();
    const chance = jest.spyOn(Math, 'random').mockReturnValue(1);
    let terms = 0;
    const leadership = locks.lead('indexer', async () => void (terms += 1), { restMs: 1_000 });
    await clock.advance(1_249);
    expect(terms).toBe(1);
    await clock.advance(2);
    expect(terms).toBe(2);
    chance.mockRestore();
    await leadership.stop();
  });

  it('after a failure is not shorter than 200 ms, whatever restMs says', async () => {
    const { clock, locks } = setUp();
    let terms = 0;
    const leadership = locks.lead('indexer', () => Promise.reject(new Error(`failure ${(terms += 1)}`)), { restMs: 0 });
    await clock.advance(199);
    expect(terms).toBe(1);
    await clock.advance(60);
    expect(terms).toBe(2);
    await leadership.stop();
  });

  it.each([[60_001, 2_500], [60_000, 5_000]])('after a function that failed for the second time after %i ms is at most %i ms', async (ranMs, longestMs) => {
    const { clock, locks } = setUp();
    const startedAt: number[] = [];
    const leadership = locks.lead('indexer', async () => {
      if (startedAt.push(clock.now()) > 1) await new Promise<void>((resolve) => void clock.setTimer(resolve, ranMs));
      throw new Error('failed');
    });
    await clock.advance(ranMs + 8_000);
    const restMs = startedAt[2]! - startedAt[1]! - ranMs;
    expect(restMs).toBeLessThanOrEqual(longestMs);
    expect(restMs).toBeGreaterThanOrEqual(0.8 * longestMs);
    await clock.runUntil(leadership.stop());
  });
});

describe('A candidate that is stopped', () => {
  it('at the moment of its election has stopped when its lock was given back', async () => {
    const { clock, locks, wire, other } = setUp();
    const release = wire.release.bind(wire);
    wire.release = async (request) => {
      await new Promise<void>((resolve) => void clock.setTimer(resolve, 50));
      return release(request);
    };
    let stopping: Promise<void> | undefined;
    locks.events.subscribe(({ type }) => void (type === 'granted' && (stopping = leadership.stop())));
    const leadership = locks.lead('indexer', () => {});
    await clock.settle();
    await clock.runUntil(stopping!);
    expect(await other.isLocked('leader:indexer')).toBe(false);
  });

  it('by the end of its scope has ended its function by then', async () => {
    const on = setUp();
    const ended = gate();
    const { leadership } = leads(on, () => ended.promise);
    await on.clock.settle();
    let isDisposed = false;
    const disposing = leadership[Symbol.asyncDispose]().then(() => (isDisposed = true));
    await on.clock.settle();
    expect([leadership.isLeader, isDisposed]).toEqual([false, false]);
    ended.open();
    await disposing;
    expect(on.locks.leaderships).toEqual([]);
  });
});

describe('Of two candidates of one process the second', () => {
  it('leads when the first has ended its function after the loss of its term, and was stopped', async () => {
    const on = setUp();
    const { leadership, finish } = leadsOn(on);
    const terms: Lease[] = [];
    const second = on.locks.lead('indexer', async (term) => {
      terms.push(term);
      await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
    });
    await on.clock.settle();
    await on.other.forceRelease('leader:indexer');
    await on.clock.advance(5_000);
    expect(terms).toEqual([]);
    const stopping = leadership.stop();
    finish();
    await on.clock.runUntil(stopping);
    await on.clock.advance(10);
    expect([terms.length, second.isLeader]).toEqual([1, true]);
    await second.stop();
  });
});
