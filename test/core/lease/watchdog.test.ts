import { describe, expect, it, jest } from '@jest/globals';
import { pause } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { LockDefaults } from '../../../lib/core/port/lock-options.js';
import type { RenewOutcome } from '../../../lib/core/port/lock-store.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, besideHolder, Fleet } from '../../support/locks.js';

describe('The watchdog', () => {
  it('renews ten thousand leases of 3 s with at most 60 commands a second and loses none', async () => {
    const { fleet, locks, wire } = alone({ leaseMs: 3_000 });
    const leases = await fleet.clock.runUntil(Promise.all(Array.from({ length: 10_000 }, (_, n) => locks.acquire(`k:${n}`))));
    await fleet.clock.advance(3_000);
    const before = wire.sent.renew;
    await fleet.clock.advance(10_000);
    expect((wire.sent.renew - before) / 10).toBeLessThanOrEqual(60);
    for (const lease of leases) lease.assertHeld();
  });

  it('renews locks that can share a command together, though they were taken one after another', async () => {
    const fleet = new Fleet();
    const groupOf = (key: string): number => Number(key) % 50;
    const { locks, wire } = fleet.process({ leaseMs: 3_000 }, groupOf);
    let groups = 0;
    const renew = wire.renewTogether.bind(wire);
    wire.renewTogether = (requests) => {
      groups += new Set(requests.map(({ key }) => groupOf(key))).size;
      return renew(requests);
    };
    const leases = [];
    for (let n = 0; n < 500; n++) {
      leases.push(await locks.acquire(String(n)));
      await fleet.clock.advance(5);
    }
    await fleet.clock.advance(3_000);
    groups = 0;
    await fleet.clock.advance(10_000);
    // Every group about once a second.
    expect(groups / 10).toBeLessThanOrEqual(60);
    for (const lease of leases) lease.assertHeld();
    // Those that fail try again together: each at a time of its own would be over 3,000 commands.
    [wire.cut, groups] = [true, 0];
    await fleet.clock.advance(1_500);
    expect(groups).toBeGreaterThan(50);
    expect(groups).toBeLessThan(2_400);
  });

  it.each([
    { where: 'one Redis', groupOf: undefined, together: [['a', 'b', 'c'], ['d']], rule: 'with what is due now, and nothing sooner' },
    { where: 'a Cluster', groupOf: (key: string) => key.charCodeAt(0), together: [['a'], ['b'], ['c'], ['d']], rule: 'at its own time, because it could cost commands' },
  ])('renews what is due within a 24th of its length $rule ($where)', async ({ groupOf, together }) => {
    const { fleet, locks, wire } = alone({ leaseMs: 24_000 }, groupOf);
    const batches: string[][] = [];
    const renew = wire.renewTogether.bind(wire);
    wire.renewTogether = (requests) => (batches.push(requests.map(({ key }) => key)), renew(requests));
    const random = jest.spyOn(Math, 'random').mockReturnValue(1);
    for (const [key, pauseMs] of [['a', 900], ['b', 50], ['c', 150], ['d', 0]] as const) {
      await locks.acquire(key);
      await fleet.clock.advance(pauseMs);
    }
    await fleet.clock.advance(9_500);
    random.mockRestore();
    expect(batches).toEqual(together);
  });

  it('renews a lease as ever while one of fixed length is about to end beside it', async () => {
    const { fleet, locks, wire } = alone({ leaseMs: 24_000 });
    const fixed = await locks.acquire('fixed', { renew: false });
    await fleet.clock.advance(15_500);
    const random = jest.spyOn(Math, 'random').mockReturnValue(1);
    const watched = await locks.acquire('watched');
    random.mockRestore();
    await fleet.clock.advance(8_100);
    expect([wire.sent.renew, fixed.signal.aborted]).toEqual([1, false]);
    await fleet.clock.advance(400);
    expect(fixed.signal.aborted).toBe(true);
    watched.assertHeld();
  });

  it.each([
    { leaseMs: 30_000, pauseMs: 500 }, { leaseMs: 2_000, pauseMs: 100 }, { leaseMs: 200, pauseMs: 20 },
  ])('tries a renewal of a lease of $leaseMs ms without an answer again after $pauseMs ms, and ever sooner towards its end', async ({ leaseMs, pauseMs }) => {
    const { fleet, locks, wire } = alone({ leaseMs });
    const lease = await locks.acquire('k');
    const tries: { at: number; leftMs: number }[] = [];
    wire.renew = async () => {
      tries.push({ at: fleet.clock.now(), leftMs: lease.remainingMs });
      return { kind: 'unknown', cause: new LockStoreError('no answer') };
    };
    await fleet.clock.advance(leaseMs);
    expect(tries.length).toBeGreaterThan(3);
    tries.slice(1).forEach(({ at }, n) => {
      const { at: before, leftMs } = tries[n]!;
      const meanMs = Math.max(20, Math.min(pauseMs, leftMs / 4));
      expect(at - before).toBeGreaterThanOrEqual(meanMs / 2);
      expect(at - before).toBeLessThanOrEqual(1.5 * meanMs + 1);
    });
    expect(lease.signal.aborted).toBe(true);
  });

  it('renews every other lease while the renewal of one gets no answer', async () => {
    const { fleet, locks, wire } = alone({ leaseMs: 3_000 });
    const leases = await fleet.clock.runUntil(Promise.all(Array.from({ length: 100 }, (_, n) => locks.acquire(`k:${n}`))));
    const renew = wire.renew.bind(wire);
    // It hangs for ever, as on a connection that went silent.
    wire.renew = (request) => (request.key === 'k:7' ? new Promise(() => {}) : renew(request));
    await fleet.clock.advance(20_000);
    for (const lease of leases) expect(lease.signal.aborted).toBe(lease.key === 'k:7');
  });

  describe('of leases of every length', () => {
    const answerMs = 60;

    /** A store that gives a renewal up after a third of its lease, and is 60 ms away. */
    function far(): { fleet: Fleet; locks: LockService; lengths: number[]; doubted: string[] } {
      const { fleet, locks, wire } = alone({ maxLeaseMs: 60_000 });
      const [lengths, doubted]: [number[], string[]] = [[], []];
      const renew = wire.renew.bind(wire);
      wire.renew = async (request) => {
        lengths.push(request.leaseMs);
        const patienceMs = request.leaseMs / 3;
        const outcome = await renew(request);
        await pause(fleet.clock, Math.min(answerMs, patienceMs));
        return patienceMs >= answerMs ? outcome : { kind: 'unknown', cause: new LockStoreError('no answer in time') };
      };
      locks.events.subscribe((event) => event.type === 'renewFailed' && doubted.push(event.key));
      return { fleet, locks, lengths, doubted };
    }

    it('brings none in doubt by holds whose maxHoldMs is nearly over, nor asks for what can add nothing to these', async () => {
      const { fleet, locks, doubted } = far();
      const lasting = await locks.acquire('lasting', { leaseMs: 3_000 });
      const holds = await Promise.all(Array.from({ length: 20 }, (_, n) => locks.acquire(`hold ${n}`, { leaseMs: 3_000, maxHoldMs: 4_000 + 50 * n })));
      // A hold whose trust reaches to the last 15 ms of its maxHoldMs ends with that trust.
      await fleet.clock.advance(3_984);
      for (const hold of holds) expect(hold.signal.aborted).toBe(false);
      await fleet.clock.advance(6_000);
      expect(doubted).toEqual([]);
      for (const hold of holds) expect(hold.signal.aborted).toBe(true);
      lasting.assertHeld();
    });

    it('keeps a lease whose hold is nearly over for a reader that joins it then', async () => {
      const { fleet, locks } = far();
      const first = await locks.acquire('k', { mode: 'read', leaseMs: 3_000, maxHoldMs: 2_000 });
      await fleet.clock.advance(1_400);
      const second = await fleet.clock.runUntil(locks.acquire('k', { mode: 'read', leaseMs: 3_000, maxHoldMs: 2_000 }));
      expect(second.fence).toBe(first.fence);
      await fleet.clock.advance(1_900);
      expect(first.signal.aborted).toBe(true);
      second.assertHeld();
    });

    it('sends a lease of each length in the turn in which it is due, however many of another wait to be renewed', async () => {
      const { fleet, locks, lengths } = far();
      const many = Array.from({ length: 5_000 }, (_, n) => locks.acquire(`k:${n}`, { leaseMs: 30_000 }));
      const short = await fleet.clock.runUntil(Promise.all([...many, locks.acquire('short', { leaseMs: 400 })]).then((leases) => leases.at(-1)!));
      lengths.length = 0;
      // As when the wall clock was set: all are renewed at once.
      fleet.clock.stepWall(3_600_000);
      await fleet.clock.advance(500);
      // A thousand leases are looked at in a turn, those that are due first before the others.
      expect(lengths.indexOf(400)).toBeLessThan(1_000);
      short.assertHeld();
    });
  });

  it('believes no renewal that promises more than was asked for, as a server does whose clock was set back', async () => {
    const { fleet, locks, wire } = alone({ leaseMs: 3_000 });
    const lease = await locks.acquire('k');
    const renew = wire.renew.bind(wire);
    wire.renew = async (request) => {
      const outcome = await renew(request);
      return outcome.kind === 'renewed' ? { ...outcome, trustedUntil: outcome.trustedUntil + 3_600_000 } : outcome;
    };
    const before = wire.sent.renew;
    await fleet.clock.advance(6_000);
    expect(lease.remainingMs).toBeLessThanOrEqual(3_000);
    expect(wire.sent.renew - before).toBeGreaterThanOrEqual(4);
  });

  it('keeps a lease that was granted from a queue and has had no renewal, when the store serves again shortly before its end', async () => {
    const fleet = new Fleet();
    const [first, second] = [fleet.process({ leaseMs: 30_000 }), fleet.process({ leaseMs: 30_000 })];
    const keys = Array.from({ length: 20 }, (_, n) => `k:${n}`);
    const held = await fleet.clock.runUntil(Promise.all(keys.map((key) => first.locks.acquire(key))));
    const waiting = Promise.all(keys.map((key) => second.locks.acquire(key)));
    await fleet.clock.advance(100);
    for (const lease of held) void lease.release();
    const leases = await fleet.clock.runUntil(waiting);
    expect(Math.max(...leases.map(({ remainingMs }) => remainingMs))).toBeLessThanOrEqual(1_500);
    second.wire.cut = true;
    await fleet.clock.advance(leases[0]!.remainingMs - 120);
    second.wire.cut = false;
    await fleet.clock.advance(2_000);
    for (const lease of leases) lease.assertHeld();
  });

  it('ignores what a renewal answers after the lease was released', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { leaseMs: 3_000 });
    let answer!: (outcome: RenewOutcome) => void;
    wire.renew = () => new Promise((resolve) => (answer = resolve));
    await fleet.clock.advance(1_200);
    expect(await lease.release()).toBe('released');
    answer({ kind: 'renewed', trustedUntil: Infinity, contended: false });
    await fleet.clock.advance(20);
    expect(fleet.clock.pendingTimers).toBe(0);
    expect(lease.remainingMs).toBe(0);
  });
});

/** The lease that a waiter is granted: short at first, so that waiters that died cost little, and whole almost at once for a process that lives. */

/** A hold that was granted to a waiter, and the wire of its process. */
async function granted(defaults: LockDefaults) {
  const { fleet, locks, wire, other: holder } = await besideHolder('k', {}, defaults);
  const waiting = locks.acquire('k');
  await fleet.clock.advance(100);
  await holder.release();
  return { fleet, wire, lease: await fleet.clock.runUntil(waiting) };
}

describe('A hold that came from the queue', () => {
  it.each([{ leaseMs: 30_000 }, { leaseMs: 5_000 }, { leaseMs: 3_000 }, { leaseMs: 10_000, maxHoldMs: 60_000 }])(
    'survives an outage that is shorter than its lease and begins 50 ms after the grant: $leaseMs ms',
    async (defaults) => {
      const { fleet, wire, lease } = await granted(defaults);
      await fleet.clock.advance(50);
      wire.cut = true;
      await fleet.clock.advance(defaults.leaseMs * 0.9);
      lease.assertHeld();
      wire.cut = false;
      await fleet.clock.advance(60_000 - 100 - defaults.leaseMs);
      lease.assertHeld();
      expect(await lease.release()).toBe('released');
    },
  );

  it('and ends within 25 ms is never renewed', async () => {
    const { fleet, wire, lease } = await granted({ leaseMs: 30_000 });
    await fleet.clock.advance(25);
    await lease.release();
    await fleet.clock.advance(1_000);
    expect(wire.sent.renew).toBe(0);
  });

  it('and goes on is renewed once, then after a third of its lease', async () => {
    const { fleet, wire } = await granted({ leaseMs: 30_000 });
    await fleet.clock.advance(9_900);
    expect(wire.sent.renew).toBe(1);
    await fleet.clock.advance(200);
    expect(wire.sent.renew).toBe(2);
  });

  it('is renewed together with the others that were granted at the same time', async () => {
    const fleet = new Fleet();
    const keys = Array.from({ length: 100 }, (_, n) => `k:${n}`);
    const { locks } = fleet.process();
    const held = await Promise.all(keys.map((key) => locks.acquire(key)));
    const { locks: others, wire } = fleet.process();
    const waiting = keys.map((key) => others.acquire(key));
    await fleet.clock.advance(100);
    await Promise.all(held.map((lease) => lease.release()));
    await fleet.clock.runUntil(Promise.all(waiting));
    await fleet.clock.advance(5_000);
    expect(wire.sent.renew).toBe(1);
  });

  it('of no more than its first lease is renewed after a third of it, as every other', async () => {
    const { fleet, wire } = await granted({ leaseMs: 1_500 });
    await fleet.clock.advance(300);
    expect(wire.sent.renew).toBe(0);
  });
});

describe('A hold that was granted directly', () => {
  it('is renewed after a third of its lease only, however short its maxHoldMs is', async () => {
    const { fleet, locks, wire } = alone({ leaseMs: 30_000 });
    await locks.acquire('k');
    const bounded = await locks.acquire('l', { maxHoldMs: 3_000 });
    await fleet.clock.advance(600);
    expect(wire.sent.renew).toBe(0);
    await bounded.release();
    await fleet.clock.advance(6_000);
    expect(wire.sent.renew).toBe(0);
  });
});
