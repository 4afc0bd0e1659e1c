import { describe, expect, it } from '@jest/globals';
import { LockUsageError } from '../../../lib/core/port/errors.js';
import type { HandOffOptions } from '../../../lib/core/port/lock-options.js';
import { withinMsOf } from '../../../lib/core/port/options.js';

const timeOf = (given: unknown): number => withinMsOf(given as HandOffOptions, 30_000, { maxLeaseMs: 60_000 }, 'k');

describe('The time in which a ticket can be adopted', () => {
  it.each([
    [undefined, 30_000],
    [{}, 30_000],
    [{ withinMs: undefined }, 30_000],
    [{ withinMs: 1 }, 1],
    [{ withinMs: 60_000 }, 60_000],
  ])('of %j is %d ms, where the lease has 30000', (given, ms) => {
    expect(timeOf(given)).toBe(ms);
  });

  it.each<[unknown, string]>([
    [{ withinMs: 0 }, 'expected withinMs to be a whole number from 1 to 60000, got 0'],
    [{ withinMs: 60_001 }, 'got 60001 (no lock stays taken for longer than maxLeaseMs without a sign of life; raise it for all processes)'],
    [{ withinMs: 1.5 }, 'got 1.5'],
    [{ withinMs: null }, 'expected withinMs to have a value or to be left out, got null'],
    [{ within: 5 }, `unknown option 'within'`],
    [5_000, 'expected options to be an object such as { withinMs: 60000 }, got 5000'],
  ])('is refused when it is given as %j', (given, told) => {
    expect(() => timeOf(given)).toThrow(LockUsageError);
    expect(() => timeOf(given)).toThrow(/^Lock 'k': /);
    expect(() => timeOf(given)).toThrow(told);
  });
});
