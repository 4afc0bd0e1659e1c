/** A vote is decided exactly when no vote that is still out can change it: tried on every course of every vote. */
import { describe, expect, it } from '@jest/globals';
import { pause } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { HolderState, LockState } from '../../../lib/core/port/lock-state.js';
import type { Done, RenewOutcome } from '../../../lib/core/port/lock-store.js';
import { type Ballot, renewByQuorum, retryPause } from '../../../lib/stores/redlock/ballot.js';
import { listByQuorum, viewOf } from '../../../lib/stores/redlock/quorum-view.js';
import { agree, type Counted, quorumEnd, type QuorumNode, quorumOf, verdict } from '../../../lib/stores/redlock/quorum.js';
import { FakeClock } from '../../support/fake-clock.js';

const WORDS = ['yes', 'no', null] as const;
type Word = (typeof WORDS)[number];

/** Every way in which n nodes can vote in the end. */
function endings(nodes: number): Word[][] {
  if (nodes === 0) return [[]];
  return endings(nodes - 1).flatMap((shorter) => WORDS.map((word) => [...shorter, word]));
}

/** The votes of which only those in the mask are in. */
const partly = (votes: readonly Word[], mask: number): Counted<string>[] => votes.map((vote, node) => ((mask >> node) & 1 ? vote : undefined));

describe('verdict', () => {
  it.each([3, 5, 7])('of %i nodes: whatever is decided early is what all votes together say', (nodes) => {
    for (const votes of endings(nodes)) {
      const whole = verdict<string>(votes);
      expect(whole).toBeDefined();
      for (let mask = 0; mask < 2 ** nodes; mask++) {
        const early = verdict<string>(partly(votes, mask));
        if (early !== undefined && early !== whole) throw new Error(`${String(votes)} with ${mask.toString(2)} in: ${early}, then ${String(whole)}`);
      }
    }
  });

  it.each([3, 5])('of %i nodes: nothing that is decided is waited for', (nodes) => {
    const all = endings(nodes);
    for (const votes of all) {
      for (let mask = 0; mask < 2 ** nodes; mask++) {
        const known = partly(votes, mask);
        if (verdict<string>(known) !== undefined) continue;
        const possible = all.filter((ending) => known.every((vote, node) => vote === undefined || vote === ending[node]));
        expect(new Set(possible.map((ending) => verdict<string>(ending))).size).toBeGreaterThan(1);
      }
    }
  });

  it('says yes only when a quorum said yes, and no only when a quorum said no', () => {
    for (const votes of endings(5)) {
      const count = (word: Word): number => votes.filter((vote) => vote === word).length;
      const expected = count('yes') >= 3 ? 'yes' : count('no') >= 3 ? 'no' : 'split';
      expect(verdict<string>(votes)).toBe(expected);
    }
  });

  it('a tie of four nodes settles', () => {
    expect(verdict(['yes', 'no', 'yes', 'no'])).toBe('split');
    expect(verdict(['yes', 'no', 'yes', undefined])).toBeUndefined();
  });

  it('two quorums of as many nodes always share a node', () => {
    for (let nodes = 1; nodes < 100; nodes++) expect(2 * quorumOf(nodes)).toBeGreaterThan(nodes);
  });
});

describe('quorumEnd', () => {
  it('is the last instant at which a quorum still has the lease', () => {
    expect(quorumEnd([10, 50, 20, 40, 30], 3)).toBe(30);
    expect(quorumEnd([10, 50, 20], 3)).toBe(10);
    expect(quorumEnd([7, 9], 2)).toBe(7);
  });

  it('has never been when fewer than a quorum granted', () => {
    expect(quorumEnd([10, 50], 3)).toBe(-Infinity);
    expect(quorumEnd([], 2)).toBe(-Infinity);
  });
});

const NODES = ['a', 'b', 'c', 'd', 'e'].map((name) => ({ name }) as QuorumNode);

function ask(nodes = NODES, how: Parameters<typeof agree>[4] = {}) {
  const callbacks = new Map<string, Done<string>>();
  const answer = (name: string, word: string): void => callbacks.get(name)!(word);
  const fail = (name: string, retryable = true): void => callbacks.get(name)!(new LockStoreError('out of order', { retryable, nodes: [{ node: name, reason: 'LOADING' }] }));
  let settled = 'no';
  const outcome = agree('a trial', 'k', nodes, ({ name }, done: Done<string>) => void callbacks.set(name, done), how);
  outcome.then((word) => (settled = word), (error: Error) => (settled = error.message));
  const said = async (): Promise<string> => (await new Promise((resolve) => setImmediate(resolve)), settled);
  return { answer, fail, said, outcome };
}

describe('A word', () => {
  it('is agreed on as soon as a quorum said it, and not before', async () => {
    const { answer, said } = ask();
    for (const name of ['a', 'c']) answer(name, 'yes');
    answer('b', 'no');
    expect(await said()).toBe('no');
    answer('e', 'yes');
    expect(await said()).toBe('yes');
  });

  it('is agreed on only when all have answered, where the caller waits for all', async () => {
    const { answer, fail, said } = ask(NODES, { waitsForAll: true });
    for (const name of ['a', 'b', 'c', 'd']) answer(name, 'yes');
    expect(await said()).toBe('no');
    fail('e');
    expect(await said()).toBe('yes');
  });

  it('has no quorum as soon as the missing answers cannot give it one: the error names every node with its reason', async () => {
    const { answer, fail, said, outcome } = ask();
    answer('a', 'yes');
    answer('b', 'no');
    fail('c');
    expect(await said()).toBe('no');
    fail('d');
    expect(await said()).toBe("Lock 'k': no quorum of 5 nodes for a trial (a: yes; b: no; c: LOADING; d: LOADING; e: had not answered when the others had decided). It is safe to try again.");
    await expect(outcome).rejects.toMatchObject({ retryable: true, cause: { message: 'out of order' } });
  });

  it('that an operator has to help to is not worth another try, unless the others are a quorum', async () => {
    const [helpless, one] = [ask(NODES.slice(0, 3)), ask(NODES.slice(0, 3))];
    for (const name of ['a', 'b']) helpless.fail(name, false);
    await expect(helpless.outcome).rejects.toMatchObject({ retryable: false, message: expect.stringContaining('Another try will not help before an operator has fixed these nodes.') });
    one.fail('a', false);
    one.fail('b');
    await expect(one.outcome).rejects.toMatchObject({ retryable: true });
  });

  it('about whoever holds the lock is not asked for again without a look', async () => {
    const { fail, outcome } = ask(NODES.slice(0, 3), { namesNobody: true });
    for (const name of ['a', 'b']) fail(name);
    await expect(outcome).rejects.toMatchObject({ retryable: false, message: expect.stringContaining('look with inspect()') });
  });
});

describe('The pause of who was refused', () => {
  const pauses = (waitedMs: number, leftMs = Infinity): number[] => [0, 1].map((random) => retryPause(waitedMs, leftMs, random));

  it('is random, and long for who has waited for many seconds: the nodes keep its turn and call it', () => {
    expect(pauses(0)).toEqual([100, 200]);
    expect(pauses(2_999)).toEqual([100, 200]);
    expect(pauses(3_000)).toEqual([400, 800]);
  });

  it('ends when the present hold does', () => {
    expect(pauses(0, 30)).toEqual([30, 30]);
    expect(pauses(5_000, 0)).toEqual([10, 20]);
  });
});

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
    store: { redis: { timeoutMs: 2_000 }, inspect: async (key: string): Promise<LockState> => {
      await pause(clock, what === 'mute' ? GIVES_UP_AFTER_MS : 1);
      if (what === 'fails' || what === 'mute') throw new LockStoreError('out of order', { nodes: [{ node: 'abcde'[n]!, reason: what === 'mute' ? 'no answer' : 'out of order' }] });
      const holders = what.holders.map((told) => ({ fence: 1, owner: undefined, label: undefined, remainingMs: 1_000, ...told }));
      return { key, mode: holders.length === 0 ? null : (what.mode ?? 'write'), holders, waiters: [] };
    } },
  })) as unknown as QuorumNode[];
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

  it('has the grace that the node tells with which it loses its quorum', async () => {
    const graced = (...all: [number, number][]): Says[] => all.map(([remainingMs, graceMs]) => ({ holders: [{ id: 'p/1', remainingMs, ...(graceMs > 0 && { graceMs }) }] }));
    expect(await holdersOf(...graced([400, 900], [300, 900], [200, 900]))).toMatchObject([{ remainingMs: 300, graceMs: 900 }]);
    expect(await holdersOf(...graced([400, 900], [0, 700], [0, 600]))).toMatchObject([{ remainingMs: 0, graceMs: 700 }]);
    expect(await holdersOf(...graced([400, 0], [300, 0], [200, 0]))).toEqual([expect.not.objectContaining({ graceMs: expect.anything() })]);
    expect(await holdersOf(...graced([1, 0], [1, 1], [1, 1]))).toMatchObject([{ remainingMs: 1, graceMs: 1 }]);
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
      return { name: 'abcde'[n]!, isUsable: true, isListening: !out.includes(n) && !silent.includes(n), store: { list, inspect, redis: { timeoutMs: 2_000 } } };
    }) as unknown as QuorumNode[];
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

const LEASE_MS = 1_000;

type Answer = 'has it' | 'lost it' | 'had it taken' | 'fails' | 'has it, late' | 'had it taken, late';

/** What became of the renewal, and the nodes that were given the lease back, by their places. `isTrusted`: whether its trust lasts. */
async function renewal(words: readonly Answer[], isTrusted = true, isTakenBack = false, takenOn = 0): Promise<{ kind: RenewOutcome['kind']; givenBack: number[] }> {
  const clock = new FakeClock();
  const givenBack: number[] = [];
  const nodes = words.map((_, at) => ({ name: 'abcde'[at], isUsable: true })) as unknown as QuorumNode[];
  const answer = async (word: Answer, at: number): Promise<RenewOutcome> => {
    await pause(clock, word.endsWith(', late') ? LEASE_MS / 2 : 1);
    if (word === 'fails') return { kind: 'unknown', cause: new LockStoreError('out of order', { nodes: [{ node: 'abcde'[at]!, reason: 'LOADING' }] }) };
    return word.startsWith('has it') ? { kind: 'renewed', trustedUntil: clock.now() + LEASE_MS, contended: false } : { kind: 'lost' };
  };
  const standings = words.map((word, at) => ({
    isTaken: false,
    async renew() {
      const outcome = await answer(word, at);
      this.isTaken = word.startsWith('had it taken');
      return outcome;
    },
    give: () => (givenBack.push(at), answer('fails', at)),
  }));
  const ballot = {
    state: 'held', request: { key: 'k', leaseMs: LEASE_MS }, trustedUntil: isTrusted ? Infinity : -Infinity, standings,
    get takenOn() {
      return takenOn + standings.filter(({ isTaken }) => isTaken).length;
    },
    redlock: { nodes, quorum: quorumOf(nodes.length), clock },
  } as unknown as Ballot;
  const renewing = renewByQuorum(ballot, LEASE_MS);
  if (isTakenBack) Object.assign(ballot, { state: 'over' });
  const { kind } = await clock.runUntil(renewing);
  await clock.advance(LEASE_MS);
  return { kind, givenBack };
}

describe('A renewal by quorum', () => {
  it('gives the lease back to a node that lost it', async () => {
    expect(await renewal(['has it', 'lost it', 'has it', 'has it', 'has it'])).toEqual({ kind: 'renewed', givenBack: [1] });
  });

  it('gives it back to a quorum that does not have it, while two nodes have it and it can be trusted', async () => {
    expect(await renewal(['has it', 'lost it', 'lost it', 'has it', 'lost it'])).toEqual({ kind: 'unknown', givenBack: [1, 2, 4] });
    expect(await renewal(['lost it', 'lost it', 'lost it', 'has it', 'has it'])).toEqual({ kind: 'unknown', givenBack: [0, 1, 2] });
    expect(await renewal(['has it', 'has it', 'lost it', 'lost it', 'fails'])).toEqual({ kind: 'unknown', givenBack: [2, 3] });
  });

  it('gives it back to no node when a quorum released it or its trust is over: somebody else may have it', async () => {
    expect(await renewal(['has it', 'has it', 'lost it', 'lost it', 'lost it'], false)).toEqual({ kind: 'lost', givenBack: [] });
  });

  it('S3: is lost when a quorum of nodes had it taken away by a forced release, though another node has it still', async () => {
    expect(await renewal(['has it', 'had it taken', 'had it taken', 'had it taken', 'has it'])).toEqual({ kind: 'lost', givenBack: [] });
    expect(await renewal(['had it taken', 'had it taken', 'had it taken', 'had it taken', 'has it'])).toEqual({ kind: 'lost', givenBack: [] });
  });

  it('S3: gives it back to no node that had it taken away, though a quorum has it still, for more may be about to let it go', async () => {
    expect(await renewal(['has it', 'had it taken', 'had it taken', 'fails', 'has it'])).toEqual({ kind: 'unknown', givenBack: [] });
    expect(await renewal(['has it', 'had it taken', 'lost it', 'has it', 'has it'])).toEqual({ kind: 'renewed', givenBack: [2] });
  });

  it('S3: gives it back to no node when another one, which does not answer now, had it taken away before', async () => {
    expect(await renewal(['has it', 'has it', 'lost it', 'fails', 'fails'], true, false, 1)).toEqual({ kind: 'unknown', givenBack: [] });
  });

  it('S3: is lost when one node had it taken away and no quorum has it, for a quorum may have confirmed that', async () => {
    expect(await renewal(['has it', 'lost it', 'had it taken', 'lost it', 'has it'])).toEqual({ kind: 'lost', givenBack: [] });
    expect(await renewal(['has it', 'lost it', 'had it taken', 'fails', 'has it'])).toEqual({ kind: 'unknown', givenBack: [] });
    expect(await renewal(['has it', 'lost it', 'lost it', 'fails', 'has it'])).toEqual({ kind: 'unknown', givenBack: [1, 2] });
  });

  it('S3: gives it back to no node that says late that it had it taken away', async () => {
    expect(await renewal(['has it', 'has it', 'fails', 'fails', 'had it taken, late'])).toEqual({ kind: 'unknown', givenBack: [] });
  });

  it('is in doubt while a node that may have it has not answered, though its trust is over', async () => {
    expect((await renewal(['has it', 'has it', 'lost it', 'lost it', 'fails'], false)).kind).toBe('unknown');
  });

  it('is lost when its ballot is taken back meanwhile, though all nodes had renewed it before', async () => {
    const all = ['has it', 'has it', 'has it', 'has it', 'has it'] as const;
    expect(await renewal(all)).toEqual({ kind: 'renewed', givenBack: [] });
    expect(await renewal(all, true, true)).toEqual({ kind: 'lost', givenBack: [] });
  });

  it('is lost at once when no node has it', async () => {
    expect(await renewal(['lost it', 'lost it', 'lost it', 'fails', 'lost it'])).toEqual({ kind: 'lost', givenBack: [] });
  });

  it('that is in doubt names what each node said', async () => {
    await expect(renewal(['has it', 'lost it', 'fails'])).resolves.toEqual({ kind: 'unknown', givenBack: [1] });
  });
});
