/** When the memories of a Cluster are asked for again, on virtual time, where a test says which groups are answered. */
import { describe, expect, it } from '@jest/globals';
import { Recalls } from '../../../lib/stores/redis/recalls.js';
import { FakeClock } from '../../support/fake-clock.js';

const GROUPS = 20;

interface Stage {
  readonly clock: FakeClock;
  readonly recalls: Recalls;
  /** The groups that were asked about, in order. */
  readonly asked: number[];
  /** The groups whose master does not answer. */
  readonly down: Set<number>;
  connection: number;
}

async function stage(): Promise<Stage> {
  const clock = new FakeClock();
  const asked: number[] = [];
  const down = new Set<number>();
  const groups = Array.from({ length: GROUPS }, (_, group) => [group]);
  const ask = async ([group]: readonly number[]): Promise<void> => {
    asked.push(group!);
    if (down.has(group!)) throw new Error('not connected');
  };
  const on = { clock, asked, down, connection: 1 };
  const recalls = new Recalls({ clock, together: groups, ask, connection: () => on.connection });
  await recalls.begin();
  asked.length = 0;
  return Object.assign(on, { recalls });
}

/** Groups that share a master which is down. */
const SHARED = [3, 4, 5, 6, 7, 8, 9];

describe('Groups whose master does not answer', () => {
  it('are asked about one at a time, and all at once when one of them is answered', async () => {
    const on = await stage();
    for (const group of SHARED) on.down.add(group);
    on.recalls.atOnce();
    await on.clock.advance(10);
    expect(on.asked).toHaveLength(GROUPS);
    on.asked.length = 0;
    await on.clock.advance(2_000);
    expect(on.asked.length).toBeGreaterThan(10);
    expect(on.asked.length).toBeLessThanOrEqual(20);
    on.down.clear();
    on.asked.length = 0;
    await on.clock.advance(150);
    expect(on.asked.sort()).toEqual(SHARED);
    await on.clock.advance(2_000);
    expect(on.asked).toHaveLength(SHARED.length);
    expect(on.clock.pendingTimers).toBe(0);
  });

  it('are all found out about soon, though those of another master stay without an answer', async () => {
    const on = await stage();
    for (let group = 0; group < GROUPS; group++) if (group !== 0) on.down.add(group);
    on.recalls.atOnce();
    await on.clock.advance(10);
    for (const group of SHARED) on.down.delete(group);
    on.asked.length = 0;
    await on.clock.advance(10_000);
    expect(on.asked).toEqual(expect.arrayContaining(SHARED));
    on.recalls.close();
    expect(on.clock.pendingTimers).toBe(0);
  });

  it('are left to the recall of the next connection', async () => {
    const on = await stage();
    for (const group of SHARED) on.down.add(group);
    on.recalls.atOnce();
    await on.clock.advance(10);
    on.connection += 1;
    on.asked.length = 0;
    await on.clock.advance(2_000);
    expect(on.asked).toEqual([]);
    expect(on.clock.pendingTimers).toBe(0);
  });
});
