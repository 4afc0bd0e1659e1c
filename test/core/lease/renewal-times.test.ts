import { describe, expect, it } from '@jest/globals';
import { Backoff } from '../../../lib/core/lease/background-release.js';
import { DueLeases, RenewalTimes } from '../../../lib/core/lease/watchdog.js';
import type { StoreLease } from '../../../lib/core/lease/store-lease.js';
import { leaseWith } from '../../support/leases.js';

const lasting = (leaseMs: number): StoreLease => leaseWith({ leaseMs });

describe('The renewals of a group', () => {
  it('take place together: a lease is renewed up to half of its pause sooner when others of its group and length are due', () => {
    const times = new RenewalTimes(() => 1);
    const at = [[0, 1_000], [400, 1_000], [500, 1_000], [501, 1_000], [1_000, 900], [1_000, 1_802], [1_000, 2_000]].map(([now, inMs]) => times.next(lasting(3_000), now!, inMs!));
    // The first three and those within half of the pause are due together; who is due sooner, or much later, has a time of its own.
    expect(at).toEqual([1_000, 1_000, 1_000, 1_501, 1_501, 2_802, 2_802]);
  });

  it('are planned apart for other groups and for other lengths', () => {
    let group = 1;
    const times = new RenewalTimes(() => group);
    expect(times.next(lasting(3_000), 0, 1_000)).toBe(1_000);
    expect(times.next(lasting(30_000), 100, 1_000)).toBe(1_100);
    group = 2;
    expect(times.next(lasting(3_000), 200, 1_000)).toBe(1_200);
    group = 64;
    expect(times.next(lasting(3_000), 0, 1_000)).toBe(1_000);
    group = 0;
    expect(times.next(lasting(6_000), 300, 1_000)).toBe(1_300);
    group = 2;
    // Lengths are numbered below 64, so that no length of one group counts as one of the next.
    expect(times.next(lasting(3_000), 100, 1_100)).toBe(1_200);
  });
});

describe('The leases that are due', () => {
  it('leave in one batch of each length, of so many at most, until none is left', () => {
    const due = new DueLeases();
    expect([due.isEmpty, due.hasBatchOf(1)]).toEqual([true, false]);
    for (const length of [3_000, 3_000, 3_000, 30_000]) due.add(lasting(length), length);
    expect([due.isEmpty, due.hasBatchOf(3), due.hasBatchOf(4)]).toEqual([false, true, false]);
    expect(due.take(2).map((batch) => batch.map(({ lengthMs }) => lengthMs))).toEqual([[3_000, 3_000], [30_000]]);
    expect(due.take(2).map((batch) => batch.length)).toEqual([1]);
    expect([due.isEmpty, due.take(2)]).toEqual([true, []]);
    for (let n = 0; n < 2; n++) due.add(lasting(3_000), 3_000);
    expect([due.take(2).length, due.isEmpty]).toEqual([1, true]);
  });
});

describe('The pauses between tries', () => {
  it('double up to the longest, each spread over its second half', () => {
    const tries = Array.from({ length: 200 }, () => {
      const backoff = new Backoff(50, 250);
      return Array.from({ length: 5 }, () => backoff.nextMs());
    });
    [50, 100, 200, 250, 250].forEach((most, n) => {
      const pauses = tries.map((all) => all[n]!);
      expect(Math.max(...pauses)).toBeLessThanOrEqual(most);
      expect(Math.min(...pauses)).toBeGreaterThanOrEqual(most / 2);
      expect(Math.max(...pauses) - Math.min(...pauses)).toBeGreaterThan(most / 4);
    });
  });
});
