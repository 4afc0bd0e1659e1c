/** How many fences a process reserves with a lease of a lock: one for each call that is likely to follow on it. */
import { describe, expect, it } from '@jest/globals';
import { Fleet, gate } from '../../support/locks.js';

describe('The fences that a process asks for', () => {
  /** Calls that hold the lock one after another, and how many fences each of their requests asked for. */
  async function asked(fleet: Fleet, process: ReturnType<Fleet['process']>, calls: number, options = {}): Promise<number[]> {
    const fences: number[] = [];
    const { acquire } = process.wire;
    process.wire.acquire = (request) => (fences.push(request.fences), acquire.call(process.wire, request));
    await fleet.clock.runUntil(Promise.all(Array.from({ length: calls }, () => process.locks.withLock('k', options, async () => {}))));
    process.wire.acquire = acquire;
    return fences;
  }

  it('are one where nobody follows: for a single call, with handOn 1, for readers, and for who owes minHoldMs', async () => {
    const fleet = new Fleet();
    for (const [handOn, calls, options] of [[16, 1, {}], [1, 3, {}], [16, 3, { mode: 'read' }], [16, 2, { minHoldMs: 1 }]] as const) {
      const fences = await asked(fleet, fleet.process({ handOn }), calls, options);
      expect(fences.length).toBeGreaterThan(0);
      expect(new Set(fences)).toEqual(new Set([1]));
    }
  });

  it('are as many as may follow each other while others wait, or as many as wait here, and at most 256', async () => {
    for (const [here, expected] of [[3, 16], [64, 63], [300, 256]] as const) {
      const fleet = new Fleet();
      const process = fleet.process();
      const work = gate();
      const first = process.locks.withLock('k', () => work.promise);
      await fleet.clock.settle();
      const elsewhere = fleet.process().locks.withLock('k', async () => {});
      await fleet.clock.settle();
      const fences = asked(fleet, process, here - 1);
      await fleet.clock.settle();
      work.open();
      await fleet.clock.runUntil(Promise.all([first, elsewhere]));
      expect((await fences)[0]).toBe(expected);
    }
  });

  it('are many only after as many were used: unused ones would run ahead of the clock', async () => {
    const fleet = new Fleet();
    const fences = await asked(fleet, fleet.process(), 12_000);
    expect(fences).toEqual([1, 256, 1_024, 4_096, 4_096, 4_096]);
  });
});
