/** Roles on virtual time: who leads, what a process does between two terms, and what it leaves behind. */
import { describe, expect, it } from '@jest/globals';
import { LockKeyError, LockUsageError, type Lease, type LeadOptions, type LockEvent } from '../../../lib/index.js';
import type { LockService } from '../../../lib/lock.service.js';
import type { LockDefaults } from '../../../lib/core/port/lock-options.js';
import type { Finding } from '../../../lib/core/port/lock-events.js';
import { Fleet, gate } from '../../support/locks.js';

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
    expect([one!.isLeader, two!.isLeader]).toEqual([false, true]);
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
    const events: LockEvent[] = [];
    locks.events.subscribe((event) => events.push(event));
    const startedAt: number[] = [];
    const leadership = locks.lead('indexer', async () => {
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
    await leadership.stop();
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

  it('that ignores the signal keeps another candidate of its process from running beside it', async () => {
    const { clock, members } = await fleetOf(1);
    const { locks } = members[0]!;
    const stubborn = new Work(false);
    const other = new Work();
    locks.lead('indexer', stubborn.lead);
    const second = locks.lead('indexer', other.lead);
    await clock.settle();
    await locks.forceRelease('leader:indexer');
    await clock.advance(5_000);
    expect([stubborn.running, other.terms.length]).toEqual([1, 0]);
    stubborn.finish();
    await clock.advance(10);
    expect(stubborn.running + other.running).toBe(1);
    await second.stop();
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
  it('that stands costs its heartbeats only', async () => {
    const { clock, members } = await fleetOf(2);
    members.forEach((member) => stand(member));
    await clock.advance(5_000);
    const { wire } = members[1]!;
    const before = { ...wire.sent };
    await clock.advance(100_000);
    expect(wire.sent.heartbeat - before.heartbeat).toBeLessThanOrEqual(150);
    expect(wire.sent.acquire - before.acquire).toBeLessThanOrEqual(2);
    expect([wire.sent.renew, wire.sent.release]).toEqual([before.renew, before.release]);
  });

  it('that is stopped at the moment of its election does not run its function', async () => {
    const { clock, members } = await fleetOf(2);
    const [one, two] = members.map((member) => stand(member));
    await clock.settle();
    members[1]!.locks.events.subscribe(({ type }) => void (type === 'granted' && two!.stop()));
    await one!.stop();
    await clock.advance(10);
    expect(members[1]!.work.terms).toEqual([]);
    expect(await members[0]!.locks.leader('indexer')).toBeNull();
  });

  it('is the only one who pays for roles: who stands for none sends nothing and sets no timer, also at its shutdown', async () => {
    const { clock, members } = await fleetOf(1);
    const { locks, wire } = members[0]!;
    await clock.advance(100_000);
    expect([locks.leaderships, wire.commands, clock.pendingTimers]).toEqual([[], 0, 0]);
    await clock.runUntil(locks.close());
    expect([wire.commands, clock.pendingTimers]).toEqual([0, 0]);
  });

  it('leaves nothing behind after stop(), whether it led, stood or rested', async () => {
    const { fleet, clock, members } = await fleetOf(3);
    const leaderships = members.map((member) => stand(member));
    await clock.settle();
    members[0]!.work.finish();
    await clock.settle();
    expect(leaderships.map(({ isLeader }) => isLeader)).toEqual([false, true, false]);
    await Promise.all(leaderships.map((each) => each.stop()));
    await clock.advance(30);
    expect(clock.pendingTimers).toBe(0);
    expect(members.flatMap(({ locks }) => locks.leaderships)).toEqual([]);
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
    const { clock, members } = await fleetOf(2);
    members.forEach((member) => stand(member));
    await clock.settle();
    const { locks, work } = members[1]!;
    await clock.runUntil(locks.close());
    const late = locks.lead('indexer', work.lead);
    await clock.runUntil(late.stop());
    await clock.settle();
    expect([work.terms.length, locks.leaderships.length]).toEqual([0, 0]);
  });

  it('that the store refuses for good tells the log, and tries again after growing rests', async () => {
    const { clock, log, members } = await fleetOf(1);
    const { locks, work } = members[0]!;
    const leadership = locks.lead('indexer', work.lead, { minReplicas: 1 });
    await clock.advance(5_000);
    expect(work.terms).toEqual([]);
    expect(log[0]).toMatchObject({ level: 'error', message: expect.stringMatching(/^Role 'indexer': this process cannot stand for election/) });
    await leadership.stop();
  });
});
