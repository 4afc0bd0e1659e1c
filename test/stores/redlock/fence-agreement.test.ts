/** One fence for the votes of several nodes, on virtual time: a grant may be used when a quorum knows its fence. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import { Deadlines } from '../../../lib/stores/redlock/deadlines.js';
import { agreeOnFence } from '../../../lib/stores/redlock/fence-agreement.js';
import type { GrantedVote, VoteRequest } from '../../../lib/stores/redlock/node-vote.js';
import type { QuorumContext } from '../../../lib/stores/redlock/quorum-context.js';
import { quorumOf } from '../../../lib/stores/redlock/quorum.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { FakeClock } from '../../support/fake-clock.js';

const TAKES_MS = 20;
const REQUEST = { leaseMs: 10_000, on: { key: 'k' } } as VoteRequest;

/** Nodes that voted with these fences; who `knows` answers when it is told another one. */
function voted(fences: readonly number[], knows: (n: number) => boolean = () => true) {
  const clock = new FakeClock();
  const told: string[] = [];
  const nodes = fences.map((_, n) => ({
    name: `node${n}`,
    heardAt: -Infinity,
    fellSilent: () => {},
    raiseFence: async (_request: VoteRequest, fence: number) => {
      await delay(clock, TAKES_MS);
      if (!knows(n)) throw new LockStoreError('no answer');
      told.push(`${n}: ${fence}`);
      return true;
    },
  }));
  const context = { nodes, quorum: quorumOf(nodes.length), clock, deadlines: new Deadlines(clock), commandTimeoutMs: 1_000 } as unknown as QuorumContext;
  const votes = new Map(nodes.map((node, n) => [node as unknown as RedlockNode, { fence: fences[n], end: 100 + n } as unknown as GrantedVote]));
  const agree = () => agreeOnFence(Math.max(...fences), REQUEST, votes, context);
  return { clock, told, agree };
}

describe('The fence of a grant', () => {
  it('needs no further question where a quorum has voted with it', () => {
    const { agree } = voted([7, 7, 5]);
    expect(agree()).toEqual([100, 101]);
  });

  it('is told to a node that has voted with another one, for which nobody waits', async () => {
    const { agree, clock, told } = voted([7, 7, 5]);
    expect(agree()).toEqual([100, 101]);
    await clock.advance(TAKES_MS);
    expect(told).toEqual(['2: 7']);
  });

  it('that fewer have voted with is told to others, and the grant waits until a quorum has it', async () => {
    const { agree, clock, told } = voted([7, 5, 5]);
    const ends = agree();
    expect(ends).toBeInstanceOf(Promise);
    expect(told).toEqual([]);
    const since = clock.now();
    expect(await clock.runUntil(Promise.resolve(ends))).toEqual([100, 101]);
    expect(clock.now() - since).toBeGreaterThanOrEqual(TAKES_MS);
    expect(told).toContain('1: 7');
  });

  it('that no quorum can be told is not granted', async () => {
    const { agree, clock } = voted([7, 5, 5], () => false);
    await expect(clock.runUntil(Promise.resolve(agree()))).rejects.toThrow(LockStoreError);
  });
});
