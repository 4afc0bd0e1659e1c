/** A vote is decided exactly when no vote that is still out can change it: tried on every course of every vote. */
import { describe, expect, it } from '@jest/globals';
import { quorumEnd, quorumOf, verdict, type Vote } from '../../../lib/stores/redlock/quorum.js';

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
