/** A vote is decided exactly when no vote that is still out can change it: tried on every course of every vote. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { Hear } from '../../../lib/core/port/lock-store.js';
import { agree, quorumEnd, quorumOf, verdict, type Vote } from '../../../lib/stores/redlock/quorum.js';
import { patienceMs, retryPause, Waiters } from '../../../lib/stores/redlock/waiters.js';

const WORDS = ['yes', 'no', null] as const;
type Word = (typeof WORDS)[number];

/** Every way in which n nodes can vote in the end. */
function endings(nodes: number): Word[][] {
  if (nodes === 0) return [[]];
  return endings(nodes - 1).flatMap((shorter) => WORDS.map((word) => [...shorter, word]));
}

/** The votes of which only those in the mask are in. */
function partly(votes: readonly Word[], mask: number): Vote<string>[] {
  return votes.map((vote, node) => ((mask >> node) & 1 ? vote : undefined));
}

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

const NODES = ['a', 'b', 'c', 'd', 'e'].map((name) => ({ name }));

function ask(nodes = NODES, how: Parameters<typeof agree>[4] = {}) {
  const hears = new Map<string, Hear<string>>();
  const answer = (name: string, word: string): void => hears.get(name)!(word);
  const fail = (name: string, retryable = true): void => hears.get(name)!(new LockStoreError('out of order', { retryable, nodes: [{ node: name, reason: 'LOADING' }] }));
  let settled = 'no';
  const outcome = agree('a trial', 'k', nodes, ({ name }, hear: Hear<string>) => void hears.set(name, hear), how);
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

/** Who of a process waits for a lock of a Redlock, and when it is called; and how long it pauses when nobody calls. */
const nodes = [{}, {}, {}, {}, {}] as const;

describe('A process that waits', () => {
  it('asks when a quorum of nodes has called it, and not before', () => {
    const waiters = new Waiters(3);
    waiters.ask('p.1', 'k', 0);
    expect([0, 1, 1, 0].map((at) => waiters.call('k', nodes[at]!, 10))).toEqual([[], [], [], []]);
    expect(waiters.call('k', nodes[4], 11)).toEqual(['p.1']);
    expect(waiters.call('k', nodes[2], 12)).toEqual([]);
  });

  it('does not add up calls of different turns', () => {
    const waiters = new Waiters(2);
    waiters.ask('p.1', 'k', 0);
    expect(waiters.call('k', nodes[0], 0)).toEqual([]);
    expect(waiters.call('k', nodes[1], 5_000)).toEqual([]);
  });

  it('has waited since the first of its requests came that wait, or since one of them was granted the lock', () => {
    const waiters = new Waiters(2);
    expect([waiters.ask('p.1', 'k', 100), waiters.ask('p.1', 'k', 900), waiters.ask('p.2', 'k', 950), waiters.ask('p.3', 'other', 960)]).toEqual([0, 800, 850, 0]);
    waiters.served('k', 960);
    waiters.served('none', 970);
    expect([waiters.ask('p.1', 'k', 1_000), waiters.ask('p.2', 'k', 1_000), waiters.ask('p.3', 'other', 1_000)]).toEqual([40, 40, 40]);
    waiters.leave('p.1', 'k');
    waiters.ask('p.4', 'k', 1_100);
    expect([waiters.ask('p.2', 'k', 1_200), waiters.ask('p.4', 'k', 1_200)]).toEqual([240, 240]);
    waiters.leave('p.2', 'k');
    expect(waiters.ask('p.4', 'k', 1_200)).toBe(100);
  });

  it('leaves nothing behind, and the last one takes the mark away', () => {
    const waiters = new Waiters(2);
    waiters.ask('p.1', 'k', 0);
    waiters.ask('p.2', 'k', 0);
    expect([waiters.leave('p.1', 'k'), waiters.leave('p.1', 'k'), waiters.leave('p.2', 'k')]).toEqual([false, false, true]);
    expect(Reflect.get(waiters, 'lines')).toEqual(new Map());
    expect(waiters.call('k', nodes[0], 0)).toEqual([]);
  });
});

describe('The pause of who was refused', () => {
  const refusal = { waitedMs: 0, tookMs: 0, leftMs: Infinity };
  const pauses = (of: Partial<typeof refusal>): number[] => [0, 1].map((random) => retryPause({ ...refusal, ...of }, random));

  it('is random, and shorter for who has waited longer', () => {
    expect(pauses({})).toEqual([200, 400]);
    expect(pauses({ waitedMs: 500 })).toEqual([125, 250]);
    expect(pauses({ waitedMs: 3_000 })).toEqual([50, 100]);
  });

  it('is long for who has waited for many seconds: the nodes keep its turn and call it', () => {
    expect(pauses({ waitedMs: 5_000 })).toEqual([200, 400]);
    expect(pauses({ waitedMs: 60_000 })).toEqual([400, 800]);
  });

  it('is longer where the nodes are slow, and never longer than a heartbeat', () => {
    expect(pauses({ tookMs: 20 })).toEqual([280, 480]);
    expect(pauses({ tookMs: 2_000 })).toEqual([800, 800]);
  });

  it('ends when the present hold does', () => {
    expect(pauses({ leftMs: 30 })).toEqual([30, 30]);
    expect(pauses({ leftMs: 0 })).toEqual([10, 20]);
  });

  it('is what a node waits for a process that is called, and some more where the way is long', () => {
    expect([0, 25, 10_000].map(patienceMs)).toEqual([150, 250, 500]);
  });
});
