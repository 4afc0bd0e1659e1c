import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import { keptText, lostText, renewFailedText, type ReportedHold } from '../../../lib/core/hold/announcer.js';

const hold = (key: string, label?: string): ReportedHold => ({ keys: [key], heldMs: 1_234.4, options: { label } });

describe('The log line about a lost lease', () => {
  it('says whose it was, where that is known, and for how long', () => {
    expect(lostText(`Lock 'k' was lost.`, hold('k', 'Orders.pay'))).toBe(`Lock 'k' was lost. It was held by Orders.pay for 1234 ms.`);
    expect(lostText(`Lock 'k' was lost.`, hold('k'))).toBe(`Lock 'k' was lost. It was held for 1234 ms.`);
  });
});

describe('The log line about a renewal that failed', () => {
  it.each([
    [2_500.4, 2_500],
    [0.2, 0],
    [-80, 0],
  ])('says how long the lease lasts all the same: of %d ms it tells %d', (trustedForMs, told) => {
    const cause = new LockStoreError('No node answered.', { nodes: [{ node: 'a:6379', reason: 'timeout' }] });
    expect(renewFailedText('k', cause, trustedForMs)).toBe(
      `Lock 'k' could not be renewed: a:6379: timeout. It stays held for another ${told} ms and is lost after that, unless a retry succeeds.`,
    );
  });
});

describe('The log line about holds that outlast a shutdown', () => {
  const keys = Array.from({ length: 11 }, (_, n) => `k${n}`);

  it('names the only one, with all its keys and its label', () => {
    const only = { ...hold('a', 'Orders.pay'), keys: ['a', 'b'] };
    expect(keptText([only], 500)).toBe(
      `The shutdown waited 500 ms (shutdownGraceMs), and work still goes on under a lock: 'a', 'b' by Orders.pay for 1234 ms. ` +
        'Their signals have aborted; the locks stay taken until their leases end.',
    );
  });

  it('counts them, names ten, and says how many it leaves out', () => {
    const named = keys.slice(0, 10).map((key) => `'${key}' for 1234 ms`).join('; ');
    expect(keptText(keys.slice(0, 10).map((key) => hold(key)), 0)).toContain(`goes on under 10 holds: ${named}. Their signals`);
    expect(keptText(keys.map((key) => hold(key)), 0)).toContain(`goes on under 11 holds: ${named}; and 1 more. Their signals`);
  });
});
