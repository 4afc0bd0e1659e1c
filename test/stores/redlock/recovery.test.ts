/** How nodes that lost their memory are brought back, with nodes that a test speaks for: when each is greeted, surveyed and admitted, and with which fences. */
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import { Deadlines } from '../../../lib/stores/redlock/deadlines.js';
import type { MemoryLog } from '../../../lib/stores/redlock/memory-log.js';
import type { Memory, Survey } from '../../../lib/stores/redlock/node-memory.js';
import { Recovery } from '../../../lib/stores/redlock/recovery.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { FenceFloors } from '../../../lib/stores/wire/fence-floors.js';
import { SLOT_GROUPS } from '../../../lib/stores/wire/redis-keys.js';
import { FakeClock } from '../../support/fake-clock.js';

/** A node as a test wants it, and when it was asked what. */
class Node {
  heardAt = -Infinity;
  readonly link: { twin: unknown; reachable: boolean } = { twin: undefined, reachable: true };
  whole = true;
  leftMs = 0;
  since = 1;
  /** Of the slot groups, from the first on. */
  fences: readonly number[] = [];
  survives: boolean | 'fails' | 'mute' = true;
  readonly greetedAt: number[] = [];
  floors: ReadonlyMap<number, number> | undefined;
  admitted: { memory: Memory; fences: readonly number[] }[] = [];
  /** Whether it votes from its admission on. */
  takes = true;
  greets: 'answers' | 'fails' = 'answers';

  constructor(
    readonly name: string,
    private readonly clock: FakeClock,
  ) {}

  fellSilent(): void {}

  readonly memory = {
    greet: async (floors: ReadonlyMap<number, number>): Promise<Memory> => {
      this.greetedAt.push(this.clock.now() - 1_000);
      this.floors = floors;
      await delay(this.clock, 1);
      if (this.greets === 'fails') throw new LockStoreError('no answer');
      return { whole: this.whole, leftMs: this.leftMs, runId: 'r', since: this.since, hasVoted: true };
    },
    survey: async (): Promise<Survey> => {
      if (this.survives === 'mute') await delay(this.clock, 60_000);
      if (this.survives === 'fails') throw new LockStoreError('no answer');
      return { whole: this.whole, fences: this.fences };
    },
    admit: async (memory: Memory, fences: readonly number[]): Promise<boolean> => {
      this.admitted.push({ memory, fences });
      if (this.takes) this.whole = true;
      return this.takes;
    },
  };
}

let clock: FakeClock;
let told: string[];
beforeEach(() => {
  clock = new FakeClock({ now: 1_000 });
  told = [];
  jest.spyOn(Math, 'random').mockReturnValue(0.5);
});
afterEach(() => void jest.restoreAllMocks());

function setUp(count = 3, commandTimeoutMs = 2_000) {
  const nodes = Array.from({ length: count }, (_, n) => new Node('abcde'[n]!, clock));
  const log = {
    forgot: (name: string, leftMs: number) => void told.push(`${name} forgot for ${leftMs}`),
    votes: (name: string) => void told.push(`${name} votes`),
    quorumForgot: (forgetful: number) => void told.push(`${forgetful} forgot`),
    close: () => void told.push('closed'),
  } as unknown as MemoryLog;
  const floors = new FenceFloors();
  const recovery = new Recovery({ nodes: nodes as unknown as RedlockNode[], clock, deadlines: new Deadlines(clock), commandTimeoutMs, floors, log });
  const attend = (n: number): Promise<void> => recovery.attend(nodes[n] as unknown as RedlockNode);
  return { nodes: nodes as [Node, Node, Node, ...Node[]], recovery, floors, attend };
}

describe('A node', () => {
  it('that remembers all is greeted once, with the fences that this process has seen, and is no news', async () => {
    const { nodes: [a], floors, attend } = setUp();
    floors.saw(0, 7);
    floors.saw(3, 1);
    await clock.runUntil(attend(0));
    await clock.advance(60_000);
    expect([a.greetedAt, [...a.floors!], told, clock.pendingTimers]).toEqual([[0], [[0, 7], [3, 1]], [], 0]);
  });

  it('that forgot is greeted every two seconds and a little, and admitted when all that it forgot has ended', async () => {
    const { nodes: [a, b, c], floors, attend } = setUp();
    Object.assign(a, { whole: false, leftMs: 5_000 });
    [b.fences, c.fences] = [[5, 8], [6]];
    floors.saw(1, 3);
    floors.saw(2, 4);
    await clock.runUntil(attend(0));
    await clock.advance(2_050);
    a.leftMs = 700;
    expect(a.greetedAt).toEqual([0, 2_051]);
    await clock.advance(10);
    expect(a.admitted).toEqual([]);
    a.leftMs = 0;
    await clock.advance(1_000);
    expect(a.greetedAt[2]! - a.greetedAt[1]!).toBe(751);
    expect(a.admitted).toEqual([{ memory: expect.objectContaining({ runId: 'r', since: 1 }), fences: [6, 8, 4, ...Array.from({ length: SLOT_GROUPS - 3 }, () => 0)] }]);
    expect(a.greetedAt[3]! - a.greetedAt[2]!).toBe(1);
    await clock.advance(60_000);
    expect([told, clock.pendingTimers]).toEqual([['a forgot for 5000', 'a votes'], 0]);
  });

  it('is not admitted a millisecond before all that it forgot has ended', async () => {
    const { nodes: [a], attend } = setUp();
    Object.assign(a, { whole: false, leftMs: 1 });
    await clock.runUntil(attend(0));
    expect(a.admitted).toEqual([]);
    a.leftMs = 0;
    await clock.advance(52);
    expect(a.admitted).toHaveLength(1);
  });

  it('that is not admitted, because it forgot once more, is greeted again after half a second', async () => {
    const { nodes: [a], attend } = setUp();
    Object.assign(a, { whole: false, takes: false });
    await clock.runUntil(attend(0));
    await clock.advance(499);
    expect(a.greetedAt).toHaveLength(1);
    await clock.advance(2);
    expect([a.greetedAt.length, a.admitted.length]).toEqual([2, 2]);
  });

  it('that forgot again is told again, and once for each time', async () => {
    const { nodes: [a], attend } = setUp();
    Object.assign(a, { whole: false, leftMs: 60_000 });
    await clock.runUntil(attend(0));
    await clock.advance(5_000);
    a.since = 2;
    await clock.advance(5_000);
    expect(told).toEqual(['a forgot for 60000', 'a forgot for 60000']);
  });

  it('that does not answer is greeted again after half a second, unless its connection has gone', async () => {
    for (const [reachable, greetings] of [[true, 3], [false, 1]] as const) {
      const { nodes: [a], attend } = setUp();
      a.greets = 'fails';
      a.link.reachable = reachable;
      await clock.runUntil(attend(0));
      await clock.advance(1_010);
      expect(a.greetedAt).toHaveLength(greetings);
      a.greets = 'answers';
      await clock.advance(1_000);
      expect(clock.pendingTimers).toBe(0);
    }
  });

  it('that is another name of a server is greeted as that one, and not admitted', async () => {
    const { nodes: [a], attend } = setUp();
    Object.assign(a, { whole: false, leftMs: 0 });
    a.link.twin = {};
    await clock.runUntil(attend(0));
    await clock.advance(10_000);
    expect([a.greetedAt.length, a.admitted, told]).toEqual([1, [], []]);
  });

  it('is greeted once at a time, and at once although a later time was planned', async () => {
    const { nodes: [a], attend } = setUp();
    Object.assign(a, { whole: false, leftMs: 60_000 });
    await clock.runUntil(Promise.all([attend(0), attend(0)]));
    expect(a.greetedAt).toHaveLength(1);
    await clock.runUntil(attend(0));
    expect([a.greetedAt.length, clock.pendingTimers]).toEqual([2, 1]);
    a.whole = true;
    await clock.runUntil(attend(0));
    expect([a.greetedAt.length, clock.pendingTimers]).toEqual([3, 0]);
  });

  it('is not greeted any more once all is closed, whatever was planned or under way', async () => {
    const { nodes: [a, b], recovery, attend } = setUp();
    Object.assign(a, { whole: false, leftMs: 60_000 });
    Object.assign(b, { whole: false, leftMs: 60_000 });
    await clock.runUntil(attend(0));
    const underWay = attend(1);
    recovery.close();
    expect(clock.pendingTimers).toBe(1); // of the greeting that is under way
    await clock.runUntil(underWay);
    expect(clock.pendingTimers).toBe(0);
    await attend(0);
    await clock.advance(10_000);
    expect([a.greetedAt.length, b.greetedAt.length, clock.pendingTimers, told.at(-1)]).toEqual([1, 1, 0, 'b forgot for 60000']);
    expect(told).toContain('closed');
  });
});

describe('The fences of a node that forgot', () => {
  it('are not known while too few of the others answer that may remember them: it is asked again later', async () => {
    const { nodes: [a, b, c], attend } = setUp();
    a.whole = false;
    c.survives = 'fails';
    await clock.runUntil(attend(0));
    expect(a.admitted).toEqual([]);
    c.survives = true;
    b.fences = [7];
    await clock.advance(498);
    expect(a.greetedAt).toHaveLength(1);
    await clock.advance(10);
    expect(a.admitted[0]!.fences[0]).toBe(7);
    expect(told).toEqual(['a forgot for 0', 'a votes']);
  });

  it.each([[0, 250], [0.5, 500], [1, 750]])('that are not known are asked for again at a random instant: at %d after %i ms', async (random, afterMs) => {
    jest.spyOn(Math, 'random').mockReturnValue(random);
    const { nodes: [a, , c], attend } = setUp();
    a.whole = false;
    c.survives = 'fails';
    await clock.runUntil(attend(0));
    await clock.advance(afterMs - 1);
    expect(a.greetedAt).toHaveLength(1);
    await clock.advance(2);
    expect(a.greetedAt).toHaveLength(2);
  });

  it('are not asked of the node itself', async () => {
    const { nodes: [a, b], attend } = setUp();
    Object.assign(a, { whole: false, survives: 'mute' });
    b.fences = [7];
    const since = clock.now();
    await clock.runUntil(attend(0));
    expect([a.admitted[0]!.fences[0], clock.now() - since]).toEqual([7, 1]);
  });

  it.each([[2_000, 500], [300, 300]])('are not waited for longer than half a second, or commandTimeoutMs: %i ms are %i', async (commandTimeoutMs, forMs) => {
    const { nodes: [a, , c, d, e], attend } = setUp(5, commandTimeoutMs);
    for (const node of [d!, e!]) node.survives = 'mute';
    Object.assign(a, { whole: false });
    c.fences = [7];
    const since = clock.now();
    await clock.runUntil(attend(0));
    expect(clock.now() - since).toBe(forMs + 1);
    expect(a.admitted).toEqual([]);
  });

  it('come from a quorum of the others, though one of them is mute', async () => {
    const { nodes: [a, b, c, d, e], attend } = setUp(5);
    Object.assign(a, { whole: false });
    e!.survives = 'fails';
    [b.fences, c.fences, d!.fences] = [[5], [7], [6]];
    await clock.runUntil(attend(0));
    expect(a.admitted[0]!.fences[0]).toBe(7);
    expect(told).toEqual(['a forgot for 0']);
  });

  it('come from what all that can be asked have seen when no quorum is left that remembers, and that is told', async () => {
    const { nodes: [a, b, c], floors, attend } = setUp();
    for (const node of [a, b, c]) node.whole = false;
    [b.fences, c.fences] = [[5], [7, 1]];
    floors.saw(1, 9);
    await clock.runUntil(attend(0));
    expect(a.admitted[0]!.fences.slice(0, 3)).toEqual([7, 9, 0]);
    expect(told).toEqual(['a forgot for 0', '3 forgot']);
  });

  it('are not looked for in a node that was out together with it, also when that was admitted before', async () => {
    const { nodes: [a, b, c], attend } = setUp();
    for (const node of [a, b]) Object.assign(node, { whole: false, leftMs: 60_000 });
    c.survives = 'fails';
    await clock.runUntil(attend(0));
    await clock.runUntil(attend(1));
    Object.assign(b, { whole: true, fences: [4] });
    await clock.runUntil(attend(1));
    a.leftMs = 0;
    await clock.runUntil(attend(0));
    expect(a.admitted[0]!.fences[0]).toBe(4);
    expect(told).toContain('2 forgot');
  });

  it('are looked for in a node that was out, and votes again, before it forgot', async () => {
    const { nodes: [a, b, c], attend } = setUp();
    Object.assign(b, { whole: false, leftMs: 60_000 });
    c.survives = 'fails';
    await clock.runUntil(attend(1));
    b.whole = true;
    await clock.runUntil(attend(1));
    Object.assign(a, { whole: false });
    await clock.runUntil(attend(0));
    expect([a.admitted, told]).toEqual([[], ['b forgot for 60000', 'b votes', 'a forgot for 0']]);
  });
});
