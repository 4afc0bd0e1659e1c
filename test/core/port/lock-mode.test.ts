import { describe, expect, it } from '@jest/globals';
import { covers, type LockMode } from '../../../lib/core/port/lock-options.js';

describe('A hold', () => {
  it.each<[LockMode, LockMode, boolean]>([
    ['write', 'write', true],
    ['write', 'read', true],
    ['read', 'read', true],
    ['read', 'write', false],
  ])('for %s lets in a nested call for %s: %s', (held, wanted, isIn) => {
    expect(covers(held, wanted)).toBe(isIn);
  });
});
