import { describe, expect, it } from '@jest/globals';
import { FenceDemand } from '../../../lib/core/lease/fence-demand.js';
import type { StoreLease } from '../../../lib/core/lease/store-lease.js';
import { resolveOptions, resolveDefaults } from '../../../lib/core/port/resolve-options.js';

const options = resolveDefaults();
const reading = resolveOptions({ mode: 'read' }, options);
const lasting = resolveOptions({ minHoldMs: 1 }, options);

/** What a lease was like: whether others waited for it, and how many fences it had if it used them all. */
const lease = (contended: boolean, usedUpFences: number): StoreLease => ({ contended, usedUpFences }) as unknown as StoreLease;

describe('The fences that are asked for', () => {
  it('are one where nobody follows', () => {
    expect([new FenceDemand(16).of(options, 1), new FenceDemand(1).of(options, 64), new FenceDemand(16).of(reading, 64), new FenceDemand(16).of(lasting, 64)]).toEqual([1, 1, 1, 1]);
  });

  it('are as many as may follow each other while others wait', () => {
    const demand = new FenceDemand(16);
    expect(demand.of(options, 2)).toBe(16);
    demand.ended(lease(true, 256));
    expect([demand.of(options, 2), demand.of(options, 64), demand.of(options, 5_000)]).toEqual([16, 64, 256]);
  });

  it('are many only after as many were used: unused ones would run ahead of the clock', () => {
    const demand = new FenceDemand(16);
    const asked = [0, 256, 1_024, 4_096, 0].map((usedUp) => {
      demand.ended(lease(false, usedUp));
      return demand.of(options, 2);
    });
    expect(asked).toEqual([256, 1_024, 4_096, 4_096, 256]);
  });
});
