/** When the memories of a Cluster are asked for again, on virtual time, where a test says which groups are answered. */
import { describe, expect, it } from '@jest/globals';
import { Recalls } from '../../../lib/stores/redis/recalls.js';
import { FakeClock } from '../../support/fake-clock.js';
import { gate } from '../../support/locks.js';

const GROUPS = 20;

interface Stage {
  readonly clock: FakeClock;
  readonly recalls: Recalls;
  /** The groups that were asked about, in order. */
  readonly asked: number[];
  /** The groups whose master does not answer. */
  readonly down: Set<number>;
  connection: number;
  /** What the answers wait for. */
  hold: Promise<void> | undefined;
}

async function stage(): Promise<Stage> {
  const clock = new FakeClock();
  const asked: number[] = [];
  const down = new Set<number>();
  const groups = Array.from({ length: GROUPS }, (_, group) => [group]);
  const ask = async ([group]: readonly number[]): Promise<void> => {
    asked.push(group!);
    const isDown = down.has(group!);
    await on.hold;
    if (isDown) throw new Error('not connected');
  };
  const on = { clock, asked, down, connection: 1, hold: undefined as Promise<void> | undefined };
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

/** How often each group was asked about since this was called last, where that is the same for all. */
function rounds(on: Stage): number {
  const count = on.asked.length / GROUPS;
  expect([...on.asked].sort((a, b) => a - b)).toEqual(Array.from({ length: GROUPS }, (_, group) => new Array<number>(count).fill(group)).flat());
  on.asked.length = 0;
  return count;
}

describe('The memories', () => {
  it('are asked for only after all were answered for the first time', async () => {
    const ask = async ([group]: readonly number[], timeoutMs?: number): Promise<void> => {
      asked.push([group, timeoutMs]);
      if (asked.length === 1) throw new Error('not connected');
    };
    const asked: unknown[] = [];
    const clock = new FakeClock();
    const recalls = new Recalls({ clock, together: [[0], [1]], ask, connection: () => 1 });
    await expect(recalls.begin()).rejects.toThrow('not connected');
    for (const act of ['atOnce', 'soon', 'afterNodesMoved'] as const) recalls[act]();
    await clock.advance(1_000);
    expect([recalls.isOpen, asked]).toEqual([false, [[0, undefined], [1, undefined]]]);
    await recalls.begin();
    recalls.atOnce();
    await clock.settle();
    expect([recalls.isOpen, asked.slice(2)]).toEqual([true, [[0, undefined], [1, undefined], [0, 300], [1, 300]]]);
  });

  it('are asked for 300 ms after a new connection, or with what asks for them before', async () => {
    const on = await stage();
    on.recalls.soon();
    await on.clock.advance(200);
    on.recalls.soon();
    await on.clock.advance(299);
    expect(rounds(on)).toBe(0);
    await on.clock.advance(1);
    expect(rounds(on)).toBe(1);
    on.recalls.soon();
    on.recalls.atOnce();
    await on.clock.advance(1_000);
    expect(rounds(on)).toBe(1);
    expect(on.clock.pendingTimers).toBe(0);
  });

  it('are asked for at once when a node comes or goes, and once more for all that follow within 300 ms', async () => {
    const on = await stage();
    on.recalls.afterNodesMoved();
    await on.clock.settle();
    expect(rounds(on)).toBe(1);
    for (let n = 0; n < 3; n += 1) {
      await on.clock.advance(50);
      on.recalls.afterNodesMoved();
    }
    await on.clock.advance(149);
    expect(rounds(on)).toBe(0);
    await on.clock.advance(1);
    expect(rounds(on)).toBe(1);
    await on.clock.advance(299);
    on.recalls.afterNodesMoved();
    await on.clock.advance(1);
    expect(rounds(on)).toBe(1);
    await on.clock.advance(1_000);
    expect([rounds(on), on.clock.pendingTimers]).toEqual([0, 0]);
    on.recalls.afterNodesMoved();
    await on.clock.settle();
    expect(rounds(on)).toBe(1);
  });

  it('are asked for once more, and not more often, when that is wanted while a question is out', async () => {
    const on = await stage();
    const answers = gate<void>();
    on.hold = answers.promise;
    for (let n = 0; n < 3; n += 1) on.recalls.atOnce();
    await on.clock.settle();
    expect(rounds(on)).toBe(1);
    answers.open();
    await on.clock.settle();
    expect(rounds(on)).toBe(1);
  });

  it('that are wanted again while a question fails are asked for again at once', async () => {
    const on = await stage();
    const answers = gate<void>();
    on.hold = answers.promise;
    for (let group = 0; group < GROUPS; group++) on.down.add(group);
    on.recalls.atOnce();
    await on.clock.settle();
    on.recalls.atOnce();
    on.down.clear();
    answers.open();
    await on.clock.settle();
    expect([rounds(on), on.clock.pendingTimers]).toEqual([2, 0]);
  });

  it('are asked for by nobody after the end of the store, whatever was under way', async () => {
    const on = await stage();
    on.recalls.soon();
    on.recalls.close();
    expect(on.clock.pendingTimers).toBe(0);
    const moved = await stage();
    moved.recalls.afterNodesMoved();
    moved.recalls.close();
    expect(moved.clock.pendingTimers).toBe(0);
    const failing = await stage();
    const answers = gate<void>();
    failing.hold = answers.promise;
    for (const group of SHARED) failing.down.add(group);
    for (let n = 0; n < 2; n += 1) failing.recalls.atOnce();
    failing.recalls.close();
    answers.open();
    await failing.clock.settle();
    expect([rounds(failing), failing.clock.pendingTimers]).toEqual([1, 0]);
    const closed = await stage();
    closed.hold = answers.promise;
    for (const group of SHARED) closed.down.add(group);
    closed.recalls.atOnce();
    closed.recalls.close();
    await closed.clock.settle();
    expect([rounds(closed), closed.clock.pendingTimers]).toEqual([1, 0]);
    const unanswered = await stage();
    for (const group of SHARED) unanswered.down.add(group);
    unanswered.recalls.atOnce();
    await unanswered.clock.advance(99);
    expect(rounds(unanswered)).toBe(1);
    unanswered.recalls.close();
    for (const act of ['atOnce', 'soon', 'afterNodesMoved'] as const) unanswered.recalls[act]();
    expect(unanswered.clock.pendingTimers).toBe(0);
    await unanswered.clock.settle();
    expect(unanswered.asked).toEqual([]);
  });
});

describe('One of several groups without an answer', () => {
  it('is asked about 100 ms after the first of them failed, and again 100 ms after it failed', async () => {
    const on = await stage();
    for (const group of SHARED) on.down.add(group);
    on.recalls.atOnce();
    await on.clock.settle();
    on.asked.length = 0;
    await on.clock.advance(99);
    expect(on.asked).toEqual([]);
    await on.clock.advance(1);
    expect(on.asked).toHaveLength(1);
    await on.clock.advance(99);
    expect(on.asked).toHaveLength(1);
    await on.clock.advance(1);
    expect(on.asked).toHaveLength(2);
    expect(SHARED).toEqual(expect.arrayContaining(on.asked));
    on.recalls.close();
  });
});
