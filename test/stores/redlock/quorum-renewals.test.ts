/** A renewal on five nodes that a test speaks for, on virtual time: what counts as renewed, and which nodes get the lease back. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { RenewOutcome } from '../../../lib/core/port/lock-store.js';
import type { Ballot } from '../../../lib/stores/redlock/ballot.js';
import { Deadlines } from '../../../lib/stores/redlock/deadlines.js';
import { renewByQuorum } from '../../../lib/stores/redlock/quorum-renewals.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { FakeClock } from '../../support/fake-clock.js';

const LEASE_MS = 1_000;

type Word = 'has it' | 'lost it' | 'fails' | 'has it, late';

/** What became of the renewal, and the nodes that were given the lease back, by their places. */
async function renewal(words: readonly Word[], mayOutlive = true): Promise<{ kind: RenewOutcome['kind']; givenBack: number[] }> {
  const clock = new FakeClock();
  const nodes = words.map((word) => ({
    fellSilent: () => {},
    async renew(): Promise<readonly (number | undefined)[]> {
      await delay(clock, word === 'has it, late' ? LEASE_MS / 2 : 1);
      if (word === 'fails') throw new LockStoreError('out of order');
      return [word === 'lost it' ? undefined : clock.now() + LEASE_MS];
    },
  })) as unknown as RedlockNode[];
  const givenBack: number[] = [];
  const rejoin = async (node: RedlockNode): Promise<void> => void givenBack.push(nodes.indexOf(node));
  const ballot = { key: 'k', id: 'p.1/1', state: 'held', standing: { lasts: () => {}, renewed: () => {}, mayOutlive: () => mayOutlive }, rejoin } as unknown as Ballot;
  const requests = [{ key: 'k', id: 'p.1', leaseMs: LEASE_MS, minReplicas: 0 }];
  const [outcome] = await clock.runUntil(renewByQuorum(requests, { nodes, clock, deadlines: new Deadlines(clock), commandTimeoutMs: 2_000 }, () => ballot));
  await clock.advance(LEASE_MS);
  return { kind: outcome!.kind, givenBack };
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

  it('is lost at once when no node has it', async () => {
    expect(await renewal(['lost it', 'lost it', 'lost it', 'fails', 'lost it'])).toEqual({ kind: 'lost', givenBack: [] });
  });

  it('does not count a node that answers too late', async () => {
    expect(await renewal(['has it', 'has it', 'has it, late', 'lost it', 'fails'])).toEqual({ kind: 'unknown', givenBack: [3] });
  });

  it('of a short lease, for which the nodes are too far away, brings no long one in doubt', async () => {
    const clock = new FakeClock();
    const awayMs = 60;
    const nodes = [1, 2, 3].map(() => ({
      fellSilent: () => {},
      async renew(parts: readonly { leaseMs: number }[], timeoutMs: number): Promise<readonly number[]> {
        await delay(clock, Math.min(awayMs, timeoutMs));
        if (timeoutMs < awayMs) throw new LockStoreError('no answer in time');
        return parts.map(({ leaseMs }) => clock.now() + leaseMs);
      },
    })) as unknown as RedlockNode[];
    const held = (id: string): Ballot => ({ key: id, id: `${id}/1`, state: 'held', standing: { lasts: () => {}, renewed: () => {} } }) as unknown as Ballot;
    const requests = [30_000, 150, 30_000, 400].map((leaseMs, n) => ({ key: `p.${n}`, id: `p.${n}`, leaseMs, minReplicas: 0 }));
    const outcomes = await clock.runUntil(renewByQuorum(requests, { nodes, clock, deadlines: new Deadlines(clock), commandTimeoutMs: 2_000 }, held));
    expect(outcomes.map(({ kind }) => kind)).toEqual(['renewed', 'unknown', 'renewed', 'renewed']);
  });
});
