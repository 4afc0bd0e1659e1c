import { describe, expect, it } from '@jest/globals';
import { isSilence } from '../../../lib/core/queue/refusal.js';

describe('A store that does not answer', () => {
  it.each([
    ['no wait', 0, 100],
    ['a short wait', 60, 100],
    ['a wait', 300, 300],
    ['a long wait', 10_000, 500],
  ])('is silent after %s (%d ms) once it has not answered for %d ms, or up to one less', (_what, waitMs, ms) => {
    expect(isSilence(ms - 0.5, waitMs)).toBe(true);
    expect(isSilence(ms - 1, waitMs)).toBe(false);
  });
});
