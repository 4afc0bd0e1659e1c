import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { likeLength } from '../../../lib/core/port/like-lengths.js';

const length = fc.integer({ min: 1, max: 2 ** 40 });

describe('Leases of like length', () => {
  it('are never one twice as long as the other', () => {
    fc.assert(fc.property(length, length, (a, b) => likeLength(a) !== likeLength(b) || Math.max(a, b) < 2 * Math.min(a, b)));
  });

  it('are those between a power of two and the next, so that a few lengths of a process are few batches', () => {
    expect(likeLength(1_024)).toBe(likeLength(2_047));
    expect(likeLength(1_024)).not.toBe(likeLength(1_023));
  });
});
