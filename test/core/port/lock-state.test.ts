import { describe, expect, it } from '@jest/globals';
import { sinceOf, untilFree, whereaboutsOf } from '../../../lib/core/port/lock-state.js';

describe('A holder id', () => {
  it.each([
    ['web-1:42:f3a9.17', { process: 'web-1:42:f3a9', host: 'web-1', pid: 42 }],
    ['node.example.org:7:f3a9.1', { process: 'node.example.org:7:f3a9', host: 'node.example.org', pid: 7 }],
    ['f3a9.17', { process: 'f3a9' }],
    ['billing:eu:f3a9.17', { process: 'billing:eu:f3a9' }],
    ['web-1:42:f3a9:x.17', { process: 'web-1:42:f3a9:x' }],
  ])('%s tells where the holder runs, as far as its process says so', (id, where) => {
    expect(whereaboutsOf(id)).toEqual(where);
  });
});

describe('A fence', () => {
  it('that comes from a clock tells when the hold began, in whole milliseconds', () => {
    expect(sinceOf(Date.UTC(2026, 10, 23) * 1_000 + 999)).toBe(Date.UTC(2026, 10, 23));
    expect(sinceOf(Date.UTC(2020, 0) * 1_000)).toBe(Date.UTC(2020, 0));
  });

  it('that is too small for a clock that is set tells nothing', () => {
    expect(sinceOf(Date.UTC(2020, 0) * 1_000 - 1)).toBeUndefined();
    expect(sinceOf(17)).toBeUndefined();
  });
});

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
