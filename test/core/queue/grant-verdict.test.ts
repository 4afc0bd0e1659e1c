import { describe, expect, it } from '@jest/globals';
import { LatestFences, PermitLease } from '../../../lib/core/lease/permit-lease.js';
import type { StoreLease } from '../../../lib/core/lease/store-lease.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { Grant, RenewOutcome, RenewRequest } from '../../../lib/core/port/lock-store.js';
import { lengthened, verdictOn } from '../../../lib/core/queue/grant-verdict.js';
import { HeldPermits } from '../../../lib/core/queue/held-permits.js';
import { KeyLeases } from '../../../lib/core/queue/key-leases.js';
import type { PermitLane } from '../../../lib/core/queue/permit-lane.js';
import type { RequestParts } from '../../../lib/core/queue/request-parts.js';
import { FakeClock } from '../../support/fake-clock.js';
import { leaseWith, seen } from '../../support/leases.js';

const grant = (how: Partial<Grant>): Grant => ({ fence: 1, fences: 1, mode: 'write', trustedUntil: 1_000, contended: false, ...how });

describe('A grant', () => {
  it('is over at its end, and short with less than 500 ms left, or less than half of a short lease', () => {
    const verdicts = (leaseMs: number, ...lefts: number[]): string[] => lefts.map((leftMs) => verdictOn(grant({}), 1_000 - leftMs, leaseMs, false));
    expect(verdicts(30_000, -1, 0, 1, 499, 500)).toEqual(['over', 'over', 'short', 'short', 'good']);
    expect(verdicts(400, 199, 200)).toEqual(['short', 'good']);
  });

  it('that was made to a waiter for a fixed time is short at first: nobody else would lengthen it', () => {
    expect([verdictOn(grant({}), 0, 1_000, true), verdictOn(grant({}), 1_000, 1_000, true)]).toEqual(['short', 'over']);
  });
});

describe('A grant that is too short', () => {
  const asking = (answer: RenewOutcome, outdated = false) => {
    const clock = new FakeClock({ now: 1_000 });
    const asked: RenewRequest[] = [];
    const store = { renew: async (requests: readonly RenewRequest[]) => (asked.push(...requests), clock.block(50), [answer]) };
    const isOutdated = (sentAt: number, replacements: number, now: number): boolean => outdated && sentAt === 1_000 && replacements === 3 && now === 1_050;
    const parts = { store, clock, watchdog: { isOutdated, replacements: 3 } } as unknown as RequestParts;
    return { asked, longer: lengthened(grant({ trustedUntil: 1_100, memory: 'old' }), { key: 'k', id: 'p.1', leaseMs: 8_000, graceMs: 7, minReplicas: 1 }, parts) };
  };

  it('is renewed to its whole length under its id, and trusted from then on as the answer says', async () => {
    const { asked, longer } = asking({ kind: 'renewed', trustedUntil: 9_000, contended: false });
    expect(await longer).toEqual({ grant: grant({ trustedUntil: 9_000, memory: 'old' }), at: 1_050 });
    expect(asked).toEqual([{ key: 'k', id: 'p.1', leaseMs: 8_000, graceMs: 7, minReplicas: 1 }]);
  });

  it('remembers the memory of the store that renewed it, else the one that granted it', async () => {
    const renewed = { kind: 'renewed', trustedUntil: 9_000, contended: false } as const;
    expect((await asking({ ...renewed, memory: 'new' }).longer)?.grant.memory).toBe('new');
    expect((await asking(renewed).longer)?.grant.memory).toBe('old');
  });

  it('is asked for again when it was not renewed, or when the answer is outdated', async () => {
    const answers: RenewOutcome[] = [{ kind: 'lost' }, { kind: 'unknown', cause: new LockStoreError('no answer') }];
    for (const answer of answers) expect(await asking(answer).longer).toBeUndefined();
    expect(await asking({ kind: 'renewed', trustedUntil: 9_000, contended: false }, true).longer).toBeUndefined();
  });
});

describe('The fences of the turns on all permits', () => {
  it('are those behind the first of the latest grant; an answer that was overtaken changes nothing', () => {
    const latest = new LatestFences();
    expect(latest.areLeft).toBe(false);
    latest.granted(grant({ fence: 10, fences: 3 }));
    latest.granted(grant({ fence: 5, fences: 100 }));
    expect([latest.areLeft, latest.take(), latest.areLeft, latest.take(), latest.areLeft]).toEqual([true, 11, true, 12, false]);
    latest.granted(grant({ fence: 13, fences: 2 }));
    expect([latest.take(), latest.areLeft]).toEqual([14, false]);
  });
});

describe('A permit', () => {
  it('gives its first caller the fence that was granted, and each that follows the next of the latest grant', () => {
    const latest = new LatestFences();
    const { keeper, guard } = seen();
    const permit = (fence: number, fences: number): PermitLease => {
      const { options } = leaseWith({ permits: 2 });
      return new PermitLease({ key: 'k', id: `p.${fence}`, options, lateUntil: -Infinity }, grant({ fence, fences, trustedUntil: 9_000 }), 1_000, keeper, guard, latest);
    };
    const turn = (lease: PermitLease): number => {
      lease.admit(lease.options, 1_000);
      lease.leave({ leaseLost: () => undefined }, 1_000, () => undefined);
      return lease.fence;
    };
    const first = permit(10, 3);
    expect([turn(first), turn(first), first.users]).toEqual([10, 11, 0]);
    const second = permit(20, 3);
    expect([turn(second), turn(first), turn(second)]).toEqual([20, 21, 22]);
    expect([first.admits(first.options, 1_000, 16), second.usedUpFences]).toEqual([false, 3]);
  });
});

describe('The permits of a process', () => {
  const lane = (lease: StoreLease): PermitLane => ({ lease: lease as PermitLease }) as PermitLane;

  it('are all of the lock while as many as there are are trusted, and no longer than the first that ends', () => {
    const held = new HeldPermits(2);
    held.add('a', lane(leaseWith({}, { trustedUntil: 9_000 })));
    expect(held.areAll(1_000)).toBe(false);
    const short = leaseWith({}, { trustedUntil: 5_000 });
    held.add('b', lane(short));
    expect([1_000, 4_999, 5_000].map((now) => held.areAll(now))).toEqual([true, true, false]);
    short.renewed({ kind: 'renewed', trustedUntil: 8_000, contended: false }, 5_000, 8_000);
    expect([5_000, 7_999, 8_000].map((now) => held.areAll(now))).toEqual([true, true, false]);
    held.remove('b');
    expect([held.areAll(1_000), held.size, held.leaseOf('a') !== undefined, held.leaseOf('b')]).toEqual([false, 1, true, undefined]);
    held.add('c', lane(leaseWith({}, { trustedUntil: 2_000 })));
    expect([1_999, 2_000].map((now) => held.areAll(now))).toEqual([true, false]);
  });

  it('hear all of a process that waits', () => {
    const held = new HeldPermits(2);
    const leases = [leaseWith(), leaseWith()];
    leases.forEach((lease, n) => held.add(`${n}`, lane(lease)));
    held.heardOfWaiter();
    expect([leases.map(({ contended }) => contended), held.leaseOf('1') === leases[1], held.leaseOf('2')]).toEqual([[true, true], true, undefined]);
  });
});

describe('The leases of a lock in one process', () => {
  it('are the one that admits and the earlier ones of readers, each found by its id until it ends', () => {
    const named = (id: string): StoreLease => Object.assign(leaseWith(), { id });
    const leases = new KeyLeases();
    const [a, b, c] = ['a', 'b', 'c'].map(named);
    for (const lease of [a!, b!, c!]) leases.add(lease);
    expect([leases.current, leases.count, leases.find('a'), leases.find('c'), leases.find('x')]).toEqual([c, 3, a, c, undefined]);
    leases.remove(a!);
    expect([leases.current, leases.count, leases.find('a'), leases.find('b')]).toEqual([c, 2, undefined, b]);
    leases.remove(c!);
    expect([leases.current, leases.count, leases.find('b')]).toEqual([undefined, 1, b]);
    leases.add(a!);
    expect([leases.current, leases.count]).toEqual([a, 2]);
  });
});
