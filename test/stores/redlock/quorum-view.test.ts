/** The state of a lock according to nodes that a test speaks for: which holders count, for how long they are shown, and which locks are listed. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { HolderState, LockState } from '../../../lib/core/port/lock-state.js';
import { listByQuorum, viewOf } from '../../../lib/stores/redlock/quorum-view.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { FakeClock } from '../../support/fake-clock.js';

type Told = Partial<HolderState> & { readonly id: string };
/** What a node says of a lock: its holders, and how they hold it; 'mute' when it says nothing, 'fails' when it is out of order. */
type Says = { readonly mode?: 'read' | 'write'; readonly holders: readonly Told[] } | 'mute' | 'fails';

const FREE: Says = { holders: [] };
const by = (...ids: string[]): Says => ({ holders: ids.map((id) => ({ id })) });

/** After so long a node that is mute has given up its command, in ms. */
const GIVES_UP_AFTER_MS = 500;

function setUp(says: readonly Says[], silent: readonly number[] = []) {
  const clock = new FakeClock();
  const nodes = says.map((what, n) => ({
    name: 'abcde'[n]!,
    isUsable: true,
    isListening: !silent.includes(n),
    inspect: async (key: string): Promise<LockState> => {
      await delay(clock, what === 'mute' ? GIVES_UP_AFTER_MS : 1);
      if (what === 'fails' || what === 'mute') throw new LockStoreError('out of order', { nodes: [{ node: 'abcde'[n]!, reason: what === 'mute' ? 'no answer' : 'out of order' }] });
      const holders = what.holders.map((told) => ({ fence: 1, owner: undefined, label: undefined, remainingMs: 1_000, ...told }));
      return { key, mode: holders.length === 0 ? null : (what.mode ?? 'write'), holders, waiters: [] };
    },
  })) as unknown as RedlockNode[];
  return { clock, nodes, view: () => clock.runUntil(viewOf('k', nodes)) };
}

const holdersOf = async (...says: readonly Says[]): Promise<readonly HolderState[]> => (await setUp(says).view()).holders;

describe('A holder', () => {
  it('counts when a quorum knows it, or may know it because nodes are mute', async () => {
    expect(await holdersOf(by('p/1'), by('p/1'), by('p/1'), FREE, FREE)).toMatchObject([{ id: 'p' }]);
    expect(await holdersOf(by('p/1'), by('p/1'), FREE, FREE, FREE)).toEqual([]);
    expect(await holdersOf(by('p/1'), by('p/1'), FREE, FREE, 'fails')).toMatchObject([{ id: 'p' }]);
    expect(await holdersOf(by('p/1'), FREE, FREE, FREE, 'fails')).toEqual([]);
    expect(await holdersOf(by('p/1'), FREE, FREE, 'fails', 'fails')).toMatchObject([{ id: 'p' }]);
  });

  it('that is known by other attempts is another one', async () => {
    expect(await holdersOf(by('p/1'), by('p/1'), by('p/2'), by('p/2'), FREE)).toEqual([]);
  });

  it('is told with the middle one of its fences, without the number of its attempt, and for as long as a quorum knows it', async () => {
    const told = [[9, 500], [7, 100], [8, 300]].map(([fence, remainingMs]): Says => ({ holders: [{ id: 'p/q/1', fence, remainingMs, label: 'import', owner: 'o' }] }));
    expect(await holdersOf(...told)).toEqual([{ id: 'p/q', fence: 8, owner: 'o', label: 'import', remainingMs: 300 }]);
  });

  it('that fewer than a quorum know is told for as long as all of them do', async () => {
    const told = [500, 100].map((remainingMs): Says => ({ holders: [{ id: 'p/1', remainingMs }] }));
    expect(await holdersOf(...told, FREE, FREE, 'fails')).toMatchObject([{ remainingMs: 100 }]);
  });

  it('has its whole grace while its lease lasts, and after that what a quorum knows of it', async () => {
    const graced = (...all: [number, number][]): Says[] => all.map(([remainingMs, graceMs]) => ({ holders: [{ id: 'p/1', remainingMs, ...(graceMs > 0 && { graceMs }) }] }));
    expect(await holdersOf(...graced([400, 900], [300, 900], [200, 900]))).toMatchObject([{ remainingMs: 300, graceMs: 900 }]);
    expect(await holdersOf(...graced([400, 900], [0, 700], [0, 600]))).toMatchObject([{ remainingMs: 0, graceMs: 700 }]);
    expect(await holdersOf(...graced([400, 0], [300, 0], [200, 0]))).toEqual([expect.not.objectContaining({ graceMs: expect.anything() })]);
    expect(await holdersOf(...graced([1, 0], [1, 1], [1, 0]))).toMatchObject([{ remainingMs: 1, graceMs: 1 }]);
  });

  it('stands behind those with a smaller fence', async () => {
    const told: Says = { mode: 'read', holders: [{ id: 'q/1', fence: 8 }, { id: 'p/1', fence: 7 }, { id: 'r/1', fence: 9 }] };
    expect((await holdersOf(told, told, told)).map(({ id }) => id)).toEqual(['p', 'q', 'r']);
  });
});

describe('A lock', () => {
  const held = (mode: 'read' | 'write', ...ids: string[]): Says => ({ mode, holders: ids.map((id) => ({ id })) });

  it('is free when no holder counts', async () => {
    expect(await setUp([by('p/1'), FREE, FREE]).view()).toEqual({ key: 'k', mode: null, holders: [], waiters: [] });
  });

  it.each<[readonly Says[], string]>([
    [[held('write', 'p/1'), held('write', 'p/1'), held('read', 'p/1')], 'write'], [[held('write', 'p/1'), held('read', 'p/1'), held('read', 'p/1')], 'read'],
    [[held('write', 'p/1'), held('read', 'p/1'), FREE], 'write'], [[held('read', 'p/1', 'q/1'), held('write', 'p/1'), held('write', 'p/1', 'q/1')], 'write'],
    [[held('write', 'p/1'), held('write', 'p/1'), held('read', 'p/1', 'q/1'), held('read', 'q/1'), held('read', 'q/1')], 'write'],
  ])('is held as most nodes say that know a holder, and for writing when they are equal, or when one of its holders writes: %#', async (says, mode) => {
    expect((await setUp(says).view()).mode).toBe(mode);
  });
});

describe('A look at a lock', () => {
  it('waits for every node that is not silent, until it has given up', async () => {
    const { clock, view } = setUp([by('p/1'), by('p/1'), 'mute']);
    const since = clock.now();
    expect((await view()).holders).toHaveLength(1);
    expect(clock.now() - since).toBe(GIVES_UP_AFTER_MS);
  });

  it('does not wait for a silent node when the others are a quorum, and waits for it when they are not', async () => {
    const { clock, view } = setUp([by('p/1'), by('p/1'), 'mute'], [2]);
    const since = clock.now();
    await view();
    expect(clock.now() - since).toBe(1);
    expect((await setUp([by('p/1'), 'fails', by('p/1')], [2]).view()).holders).toHaveLength(1);
  });

  it('rejects when fewer than a quorum answered, and says of each node why', async () => {
    await expect(setUp([by('p/1'), 'fails', 'mute']).view()).rejects.toThrow(`Lock 'k': no quorum of 3 nodes for an inspection (a: answered; b: out of order; c: no answer). It is safe to try again.`);
  });
});

describe('A list of locks', () => {
  /** Five nodes, each with the keys of the locks on it. */
  async function listed(onNodes: readonly (readonly string[])[], out: readonly number[] = [], silent: readonly number[] = []): Promise<{ keys: string[]; scanned: string }> {
    const clock = new FakeClock();
    const scanned = new Set<string>();
    const nodes = onNodes.map((keys, n) => {
      const inspect = async (key: string): Promise<LockState> => {
        const holders = keys.includes(key) ? [{ id: `${key}/1`, fence: 1, owner: undefined, label: undefined, remainingMs: 1_000 }] : [];
        return { key, mode: holders.length === 0 ? null : 'write', holders, waiters: [] };
      };
      const list = async function* (): AsyncGenerator<LockState> {
        scanned.add('abcde'[n]!);
        for (const key of keys) yield await inspect(key);
      };
      return { name: 'abcde'[n]!, isUsable: true, isListening: !out.includes(n) && !silent.includes(n), inspect, store: { list } };
    }) as unknown as RedlockNode[];
    const keys: string[] = [];
    const list = async (): Promise<void> => {
      for await (const state of listByQuorum({}, nodes)) keys.push(state.key);
    };
    await clock.runUntil(list());
    return { keys, scanned: [...scanned].join('') };
  }

  it('asks so many nodes that each lock is on one of them, and tells each once', async () => {
    const all = ['k1', 'k2', 'k3', 'k4', 'k5'];
    expect(await listed([all, all, all, all, all])).toEqual({ keys: all, scanned: 'abc' });
    expect(await listed([[], ['k1'], ['k1', 'k2'], ['k1', 'k2'], ['k2']])).toEqual({ keys: ['k1', 'k2'], scanned: 'abc' });
  });

  it('does not tell of a lock that fewer than a quorum know', async () => {
    expect((await listed([['k1'], ['k1'], ['k2'], ['k2'], ['k2']])).keys).toEqual(['k2']);
  });

  it('asks nodes that listen before all others', async () => {
    const all = ['k1'];
    expect((await listed([all, all, all, all, all], [0], [1])).scanned).toBe('cde');
    expect((await listed([all, all, all, all, all], [0, 1], [2])).scanned).toBe('dea');
  });
});
