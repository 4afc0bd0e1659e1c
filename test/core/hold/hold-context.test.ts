/** Which holds surround a call when several lock modules of one process have some. */
import { describe, expect, it } from '@jest/globals';
import { alone, Fleet, gate } from '../../support/locks.js';

describe('A call inside holds of two lock modules', () => {
  it('re-enters those of its own module only', async () => {
    const [one, two] = [new Fleet().process(), new Fleet().process()];
    const entered = await one.locks.withLock('k', (outer) =>
      two.locks.withLock('other', () => two.locks.withLock('k', (lease) => {
        expect(outer.holdCount).toBe(1);
        expect(one.locks.currentLease('k')).toBe(outer);
        return lease;
      })));
    expect(two.wire.sent).toMatchObject({ acquire: 2, release: 2 });
    expect(entered.keys).toEqual(['k']);
  });
});

describe('A leadership that is stopped from inside the hold of another lock', () => {
  it('has stopped only when its function has ended', async () => {
    const { fleet, locks } = alone();
    const { promise, open } = gate();
    const leadership = locks.lead('indexer', () => promise);
    await fleet.clock.settle();
    let stopped = false;
    const stopping = locks.withLock('k', () => leadership.stop().then(() => (stopped = true)));
    await fleet.clock.advance(100);
    expect(stopped).toBe(false);
    open();
    await fleet.clock.runUntil(stopping);
  });
});

