/** Roles on virtual time: who leads, what a process does between two terms, and what it leaves behind. */
import { describe, expect, it, jest } from '@jest/globals';
import { pause } from '../../../lib/core/port/clock.js';
import { LockTimeoutError } from '../../../lib/core/port/errors.js';
import type { Finding } from '../../../lib/core/port/lock-events.js';
import type { LockDefaults } from '../../../lib/core/port/lock-options.js';
import { type Leadership, type LeadOptions, type Lease, LockKeyError, LockUsageError } from '../../../lib/index.js';
import type { LockService } from '../../../lib/lock.service.js';
import { Fleet, eventsOf, gate } from '../../support/locks.js';

const REST_MS = 1_000;

/** A rest and the quarter that chance may add. */
const LONGEST_REST_MS = 1.25 * REST_MS;

/** The function of a leader that ends when its term is over, or when the test says so; and what became of its terms. */
class Work {
  readonly terms: Lease[] = [];
  running = 0;
  mostAtOnce = 0;
  private ends: (() => void)[] = [];

  constructor(private readonly heedsSignal = true) {}

  readonly lead = async (term: Lease): Promise<void> => {
    this.terms.push(term);
    this.running += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.running);
    const { promise, open } = gate();
    this.ends.push(open);
    if (this.heedsSignal) term.signal.addEventListener('abort', () => open());
    await promise;
    this.running -= 1;
  };

  /** Lets what runs now return. */
  finish(): void {
    for (const end of this.ends.splice(0)) end();
  }
}

async function fleetOf(size: number, defaults: LockDefaults = {}) {
  const fleet = new Fleet();
  const log: Finding[] = [];
  const members = Array.from({ length: size }, () => ({ ...fleet.process(defaults, undefined, (finding) => log.push(finding)), work: new Work() }));
  return { fleet, log, clock: fleet.clock, members };
}

function stand({ locks, work }: { locks: LockService; work: Work }, options?: LeadOptions) {
  return locks.lead('indexer', work.lead, options);
}

describe('A role', () => {
  it('has one leader at a time, and the next one leads as soon as the first was stopped', async () => {
    const { clock, members } = await fleetOf(3);
    const leaderships = members.map((member) => stand(member));
    await clock.settle();
    expect(leaderships.map(({ isLeader }) => isLeader)).toEqual([true, false, false]);
    const before = clock.now();
    await leaderships[0]!.stop();
    await clock.settle();
    expect(clock.now()).toBe(before);
    expect(leaderships.map(({ isLeader }) => isLeader)).toEqual([false, true, false]);
    const [first, second] = [members[0]!.work.terms[0]!, members[1]!.work.terms[0]!];
    expect(first.signal.aborted).toBe(true);
    expect(second.fence).toBeGreaterThan(first.fence);
  });

  it('is led by whom leader() tells, and by nobody after the last candidate was stopped', async () => {
    const { clock, members } = await fleetOf(2);
    const [one, two] = members as [(typeof members)[0], (typeof members)[0]];
    expect(await two.locks.leader('indexer')).toBeNull();
    const leadership = stand(one);
    await clock.settle();
    expect(await two.locks.leader('indexer')).toMatchObject({ id: expect.stringMatching(/^p1\./), fence: leadership.term!.fence });
    await leadership.stop();
    expect(await two.locks.leader('indexer')).toBeNull();
    stand(two, { graceMs: 20_000 });
    await clock.settle();
    members[1]!.wire.cut = true;
    await clock.advance(31_000);
    expect(await one.locks.leader('indexer')).toBeNull();
    expect(await one.locks.isLocked('leader:indexer')).toBe(true);
  });

  it('is a lock of the key leader:<role>, inside of which the function runs', async () => {
    const { clock, members } = await fleetOf(1);
    const { locks } = members[0]!;
    const { promise: seen, open } = gate<Lease | undefined>();
    await using leadership = locks.lead('indexer', async (term) => {
      await locks.withLock('leader:indexer', async () => {});
      open(locks.currentLease('leader:indexer') === term ? term : undefined);
    });
    expect(await clock.runUntil(seen)).toBeDefined();
    expect(leadership.role).toBe('indexer');
  });

  it('is stood for outside of the holds that surround the call', async () => {
    const { clock, members } = await fleetOf(1);
    const { locks } = members[0]!;
    const { promise: seen, open } = gate<Lease | undefined>();
    await locks.withLock('boot', async () => locks.lead('indexer', async () => open(locks.currentLease('boot'))));
    expect(await clock.runUntil(seen)).toBeUndefined();
  });

  it('that is none, or options that are none, are refused at once', async () => {
    const { members } = await fleetOf(1);
    const { locks, work } = members[0]!;
    expect(() => locks.lead('', work.lead)).toThrow(LockKeyError);
    expect(() => locks.lead('indexer', 'work' as never)).toThrow(LockUsageError);
    for (const restMs of [-1, 3_600_001]) expect(() => locks.lead('indexer', work.lead, { restMs })).toThrow(/expected restMs to be a whole number from 0 to 3600000/);
    expect(() => locks.lead('indexer', work.lead, { leaseMs: 10 })).toThrow(/100 ms is the shortest lease/);
    expect(() => locks.lead('indexer', work.lead, { waitMs: 10 } as never)).toThrow(/unknown option 'waitMs'/);
    expect(locks.leaderships).toEqual([]);
  });
});

describe('A leader', () => {
  it('whose function returns rests for restMs before it stands again, and another leads meanwhile', async () => {
    const { clock, members } = await fleetOf(2);
    const [one, two] = members.map((member) => stand(member));
    await clock.settle();
    members[0]!.work.finish();
    await clock.settle();
    expect([one!.isLeader, one!.term, two!.isLeader]).toEqual([false, undefined, true]);
    await clock.advance(REST_MS - 1);
    members[1]!.work.finish();
    await clock.settle();
    expect([one!.isLeader, two!.isLeader]).toEqual([false, false]);
    await clock.advance(LONGEST_REST_MS - REST_MS + 2);
    expect([one!.isLeader, two!.isLeader]).toEqual([true, false]);
  });

  it('whose function fails tells it as an event and in the log, and rests twice as long after each failure, up to a minute', async () => {
    const { clock, log, members } = await fleetOf(1);
    const { locks } = members[0]!;
    const events = eventsOf(locks);
    const startedAt: number[] = [];
    locks.lead('indexer', async () => {
      startedAt.push(clock.now());
      throw new Error(`failure ${startedAt.length}`);
    });
    await clock.advance(200_000);
    const rests = startedAt.slice(1).map((at, n) => at - startedAt[n]!);
    [2, 4, 8, 16, 32, 60, 60].slice(0, rests.length).forEach((seconds, n) => {
      expect(rests[n]).toBeGreaterThanOrEqual(seconds * 1_000);
      expect(rests[n]).toBeLessThanOrEqual(seconds * 1_250);
    });
    expect(rests.length).toBeGreaterThanOrEqual(6);
    expect(events.find(({ type }) => type === 'termFailed')).toMatchObject({ key: 'leader:indexer', template: 'leader:indexer', cause: new Error('failure 1'), restMs: expect.any(Number) });
    expect(log[0]).toMatchObject({ level: 'error', message: expect.stringMatching(/^Role 'indexer': the function of the leader failed.*stands for election again in 2.*failure 1/s) });
  });

  it('that loses its term is told by the signal, and stands again when its function has ended', async () => {
    const { clock, members } = await fleetOf(2);
    const [one, two] = members.map((member) => stand(member));
    await clock.settle();
    expect(await members[1]!.locks.forceRelease('leader:indexer')).toBe(true);
    await clock.settle();
    const [lost] = members[0]!.work.terms;
    expect(lost!.signal.reason).toMatchObject({ code: 'LOCK_LOST' });
    expect([one!.isLeader, two!.isLeader]).toEqual([false, true]);
    await two!.stop();
    await clock.settle();
    expect(one!.isLeader).toBe(true);
    expect(members[0]!.work.terms).toHaveLength(2);
  });

  it('that cannot reach the store is told before another leads', async () => {
    const { clock, members } = await fleetOf(2, { leaseMs: 3_000 });
    const [one, two] = members.map((member) => stand(member));
    await clock.settle();
    members[0]!.wire.cut = true;
    const cutAt = clock.now();
    let toldAt = 0;
    members[0]!.work.terms[0]!.signal.addEventListener('abort', () => (toldAt = clock.now()));
    while (!two!.isLeader) {
      expect(one!.isLeader && two!.isLeader).toBe(false);
      await clock.advance(10);
    }
    expect(toldAt).toBeGreaterThan(cutAt);
    expect(toldAt).toBeLessThan(clock.now());
    expect(clock.now() - cutAt).toBeLessThanOrEqual(3_000 + 1_000);
  });

  it('whose event loop was blocked for longer than the lease knows that it does not lead before any event can tell it', async () => {
    const { clock, members } = await fleetOf(1, { leaseMs: 3_000 });
    const leadership = stand(members[0]!);
    await clock.settle();
    clock.block(4_000);
    expect(leadership.isLeader).toBe(false);
  });

  it('that ignores the signal does not run twice, does not stand until it ended, and says so in the log once', async () => {
    const { fleet, log, clock, members } = await fleetOf(2);
    members[0]!.work = new Work(false);
    const [one, two] = members.map((member) => stand(member));
    await clock.settle();
    await members[1]!.locks.forceRelease('leader:indexer');
    await clock.advance(999);
    expect(log.map(({ kind }) => kind)).toEqual(['lease lost']);
    await clock.advance(60_000);
    expect([one!.isLeader, two!.isLeader]).toEqual([false, true]);
    expect(one!.term).toBe(members[0]!.work.terms[0]);
    expect((await fleet.store.inspect('leader:indexer')).waiters).toEqual([]);
    expect(log.filter(({ message }) => message.includes('its function still runs'))).toEqual([
      { kind: expect.any(String), level: 'warning', message: expect.stringContaining(`Role 'indexer': the term was lost 1000 ms ago`) },
    ]);
    members[0]!.work.finish();
    await clock.settle();
    expect((await fleet.store.inspect('leader:indexer')).waiters).toHaveLength(1);
    await two!.stop();
    await clock.settle();
    expect(one!.isLeader).toBe(true);
    expect(members[0]!.work.mostAtOnce).toBe(1);
  });

  it('that was stopped keeps its lock until the function has ended, and stop() waits for that', async () => {
    const { clock, members } = await fleetOf(2);
    members[0]!.work = new Work(false);
    const [one, two] = members.map((member) => stand(member));
    await clock.settle();
    let stopped = false;
    const stopping = one!.stop().then(() => (stopped = true));
    await clock.advance(120_000);
    expect([stopped, one!.isLeader, two!.isLeader]).toEqual([false, false, false]);
    const [term] = members[0]!.work.terms;
    expect(term!.signal.reason).toMatchObject({ code: 'LOCK_CLOSED', message: expect.stringContaining('it was stopped') });
    expect(() => term!.assertHeld()).not.toThrow();
    members[0]!.work.finish();
    await stopping;
    await clock.settle();
    expect(two!.isLeader).toBe(true);
  });

  it('may stop itself from inside its function', async () => {
    const { clock, members } = await fleetOf(1);
    const { locks } = members[0]!;
    let terms = 0;
    const leadership = locks.lead('indexer', async () => {
      terms += 1;
      await leadership.stop();
    });
    await clock.advance(10_000);
    expect([terms, locks.leaderships.length]).toEqual([1, 0]);
  });
});

describe('A candidate', () => {
  it('is the only one who pays for roles: who stands for none sends nothing and sets no timer, also at its shutdown', async () => {
    const { clock, members } = await fleetOf(1);
    const { locks, wire } = members[0]!;
    await clock.advance(100_000);
    expect([locks.leaderships, wire.commands, clock.pendingTimers]).toEqual([[], 0, 0]);
    await clock.runUntil(locks.close());
    expect([wire.commands, clock.pendingTimers]).toEqual([0, 0]);
  });

  it('leaves nothing behind after stop(), whether it led, stood or rested', async () => {
    const { fleet, clock, log, members } = await fleetOf(3);
    const leaderships = members.map((member) => stand(member));
    await clock.settle();
    members[0]!.work.finish();
    await clock.settle();
    expect(leaderships.map(({ isLeader }) => isLeader)).toEqual([false, true, false]);
    await Promise.all(leaderships.map((each) => each.stop()));
    await clock.advance(30);
    expect(clock.pendingTimers).toBe(0);
    expect([...log, ...members.flatMap(({ locks }) => locks.leaderships)]).toEqual([]);
    for await (const state of fleet.store.list()) throw new Error(`${state.key} is still there`);
  });

  it('ends by itself at shutdown: the signal aborts first, the function may finish, and the next leads at once', async () => {
    const { clock, members } = await fleetOf(2, { shutdownGraceMs: 5_000 });
    members[0]!.work = new Work(false);
    const [one, two] = members.map((member) => stand(member));
    await clock.settle();
    const { locks, work } = members[0]!;
    locks.prepareShutdown();
    expect(work.terms[0]!.signal.aborted).toBe(true);
    const closed = locks.close();
    await clock.advance(3_000);
    expect([one!.isLeader, two!.isLeader]).toEqual([false, false]);
    work.finish();
    await clock.settle();
    expect(two!.isLeader).toBe(true);
    await closed;
    expect(locks.leaderships).toEqual([]);
  });

  it('that stands for a module which is closed ends, and so does one that comes after', async () => {
    const { clock, log, members } = await fleetOf(2);
    members.forEach((member) => stand(member));
    await clock.settle();
    const { locks, work } = members[1]!;
    await clock.runUntil(locks.close());
    locks.lead('indexer', work.lead);
    await clock.advance(10);
    expect([work.terms, locks.leaderships, log]).toEqual([[], [], []]);
  });

  it('that the store refuses for good tells the log, and tries again after growing rests', async () => {
    const { clock, log, members } = await fleetOf(1);
    const { locks, work } = members[0]!;
    locks.lead('indexer', work.lead, { minReplicas: 1 });
    await clock.advance(5_000);
    expect(work.terms).toEqual([]);
    expect(log[0]).toMatchObject({ level: 'error', message: expect.stringMatching(/^Role 'indexer': this process cannot stand for election/) });
  });
});

/** One candidate in detail: what counts as a failure of its function, how long it rests, what it says in the log, and when it has stopped. */
function setUp() {
  const fleet = new Fleet();
  const log: string[] = [];
  const { locks, wire } = fleet.process({}, undefined, ({ message }: Finding) => log.push(message));
  const events = eventsOf(locks);
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
    leads(on, (term) => Promise.reject(error(term)));
    await on.clock.settle();
    await on.other.forceRelease('leader:indexer');
    await on.clock.settle();
    expect(on.events.filter(({ type }) => type === 'termFailed')).toHaveLength(1);
    expect(on.log.filter((line) => line.includes('the function of the leader failed') && !line.includes('undefined'))).toHaveLength(1);
  });

  it('has this process stand again at the same instant when it ends because of that, by an error or without', async () => {
    const abortError = Object.assign(new Error('stopped'), { name: 'AbortError' });
    const because = ({ signal: { reason } }: Lease): unknown => Promise.reject(new Error('stopped', { cause: reason }));
    for (const end of [({ signal }: Lease) => Promise.reject(signal.reason), because, () => Promise.reject(abortError), () => undefined]) {
      const on = setUp();
      const { leadership } = leads(on, end);
      await on.clock.settle();
      await on.other.forceRelease('leader:indexer');
      const next = await on.other.acquire('leader:indexer');
      await on.clock.settle();
      expect((await on.other.inspect('leader:indexer')).waiters).toHaveLength(1);
      await next.release();
      await leadership.stop();
      await on.clock.advance(1_100);
      expect(on.log.filter((line) => line.startsWith('Role'))).toEqual([]);
    }
  });

  it('fails for the last time when it was stopped before: it is told where the error was thrown, and that nobody stands any more', async () => {
    const on = setUp();
    const { leadership } = leads(on, () => Promise.reject(new Error('disk full')));
    await on.clock.settle();
    await leadership.stop();
    expect(on.log).toEqual([expect.stringMatching(/This process does not stand for election any more\. Error: disk full\n +at /)]);
    expect(on.events).toContainEqual(expect.objectContaining({ type: 'termFailed', restMs: 0 }));
  });
});

describe('The function of a leader whose term goes on', () => {
  it('failed also when it throws what the end of a term would be', async () => {
    const { clock, locks, events } = setUp();
    locks.lead('indexer', () => Promise.reject(Object.assign(new Error('aborted'), { name: 'AbortError' })));
    await clock.settle();
    expect(events.map(({ type }) => type)).toContain('termFailed');
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
  });
});

describe('A rest', () => {
  it('is longer by chance, and by a quarter at most', async () => {
    const { clock, locks } = setUp();
    const chance = jest.spyOn(Math, 'random').mockReturnValue(1);
    let terms = 0;
    locks.lead('indexer', async () => void (terms += 1), { restMs: 1_000 });
    await clock.advance(1_249);
    expect(terms).toBe(1);
    await clock.advance(2);
    expect(terms).toBe(2);
    chance.mockRestore();
  });

  it('after a failure is that of a first one when a term that ended well came before', async () => {
    const { clock, locks } = setUp();
    const startedAt: number[] = [];
    locks.lead('indexer', async () => {
      if (startedAt.push(clock.now()) !== 2) throw new Error('failed');
    });
    await clock.advance(8_000);
    expect(startedAt[3]! - startedAt[2]!).toBeLessThanOrEqual(2_500);
  });

  it('after a failure is not shorter than 200 ms, whatever restMs says', async () => {
    const { clock, locks } = setUp();
    let terms = 0;
    locks.lead('indexer', () => Promise.reject(new Error(`failure ${(terms += 1)}`)), { restMs: 0 });
    await clock.advance(199);
    expect(terms).toBe(1);
    await clock.advance(60);
    expect(terms).toBe(2);
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
  it('at the moment of its election does not run its function, and has stopped when its lock was given back', async () => {
    const { clock, locks, wire, other } = setUp();
    const release = wire.release.bind(wire);
    wire.release = async (request) => (await pause(clock, 50), release(request));
    let stopping: Promise<void> | undefined;
    locks.events.subscribe(({ type }) => void (type === 'granted' && (stopping = leadership.stop())));
    const work = jest.fn<() => void>();
    const leadership = locks.lead('indexer', work);
    await clock.settle();
    await clock.runUntil(stopping!);
    expect([work.mock.calls, await other.isLocked('leader:indexer')]).toEqual([[], false]);
  });

  it('by the end of its scope has ended its function by then', async () => {
    const [on, ended] = [setUp(), gate()];
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
  });
});
