import { describe, expect, it } from '@jest/globals';
import type { Grant } from '../../../lib/core/port/lock-store.js';
import { verdictOn } from '../../../lib/core/queue/store-request.js';

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
