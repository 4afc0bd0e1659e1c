/** Which holds surround a call when several lock modules of one process have some. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import type { Lease } from '../../../lib/core/port/lease.js';
import { Fleet, gate } from '../../support/locks.js';

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

  it('that schedules its next run inside itself keeps none of the holds before, while one of the other module goes on', async () => {
    const [one, two] = [new Fleet().process(), new Fleet().process()];
    const early: WeakRef<Lease>[] = [];
    const job = (runs: number, done: () => void, failed: (reason: unknown) => void): void => {
      const run = async (lease: Lease): Promise<void> => {
        if (early.length < 3) early.push(new WeakRef(lease));
        // The last one looks while it runs itself.
        if (runs === 0) await collectGarbage().then(done);
        else setImmediate(() => job(runs - 1, done, failed));
      };
      two.locks.withLock('job', run).catch(failed);
    };
    await one.locks.withLock('around', () => new Promise<void>((done, failed) => job(20, done, failed)));
    expect(early.map((lease) => lease.deref() === undefined)).toEqual([true, true, true]);
  });
});

describe('A leadership that is stopped from inside the hold of another lock', () => {
  it('has stopped only when its function has ended', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
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

async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  // What a turn of the event loop still refers to is free after it.
  for (let turn = 0; turn < 3; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
  }
}
