import { describe, expect, it } from '@jest/globals';
import { sinceOf, whereaboutsOf } from '../../../lib/core/port/lock-state.js';

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
