import { describe, expect, it } from '@jest/globals';
import { untilFree } from '../../../lib/core/port/lock-state.js';

describe('What is left of a hold', () => {
  it.each([
    ['without a grace is its lease', 5_000, 0, { remainingMs: 5_000 }],
    ['with a grace is its lease, and the grace after it', 5_000, 2_000, { remainingMs: 3_000, graceMs: 2_000 }],
    ['at the end of its lease is the grace', 2_000, 2_000, { remainingMs: 0, graceMs: 2_000 }],
    ['in its grace is what the grace still lasts', 500, 2_000, { remainingMs: 0, graceMs: 500 }],
    ['with a grace of one millisecond is both', 10, 1, { remainingMs: 9, graceMs: 1 }],
  ])('%s', (_what, leftMs, graceMs, told) => {
    expect(untilFree(leftMs, graceMs)).toEqual(told);
  });
});
