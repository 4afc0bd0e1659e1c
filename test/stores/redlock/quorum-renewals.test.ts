/** A renewal on five nodes that a test speaks for, on virtual time: what counts as renewed, and which nodes get the lease back. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { RenewOutcome } from '../../../lib/core/port/lock-store.js';
import { renewByQuorum, type Ballot } from '../../../lib/stores/redlock/ballot.js';
import { quorumOf } from '../../../lib/stores/redlock/quorum.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { FakeClock } from '../../support/fake-clock.js';

const LEASE_MS = 1_000;

type Word = 'has it' | 'lost it' | 'had it taken' | 'fails' | 'has it, late' | 'had it taken, late';

/** What became of the renewal, and the nodes that were given the lease back, by their places. `isTrusted`: whether its trust lasts. */
async function renewal(words: readonly Word[], isTrusted = true, isTakenBack = false, takenOn = 0): Promise<{ kind: RenewOutcome['kind']; givenBack: number[] }> {
  const clock = new FakeClock();
  const givenBack: number[] = [];
  const nodes = words.map((_, at) => ({ name: 'abcde'[at], isUsable: true })) as unknown as RedlockNode[];
  const answer = async (word: Word, at: number): Promise<RenewOutcome | { kind: 'taken' }> => {
    await delay(clock, word.endsWith(', late') ? LEASE_MS / 2 : 1);
    if (word === 'fails') return { kind: 'unknown', cause: new LockStoreError('out of order', { nodes: [{ node: 'abcde'[at]!, reason: 'LOADING' }] }) };
    return word.startsWith('has it') ? { kind: 'renewed', trustedUntil: clock.now() + LEASE_MS, contended: false } : { kind: word.includes('had it taken') ? 'taken' : 'lost' };
  };
  const standings = words.map((word, at) => ({
    renew: () => answer(word, at),
    give: () => (givenBack.push(at), answer('fails', at)),
  }));
  const ballot = {
    key: 'k', state: 'held', request: { leaseMs: LEASE_MS }, trustedUntil: isTrusted ? Infinity : -Infinity, standings, takenOn,
    redlock: { nodes, quorum: quorumOf(nodes.length), clock },
    lasts: () => {},
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
