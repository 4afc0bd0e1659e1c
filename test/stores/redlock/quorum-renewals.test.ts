/** A renewal on five nodes that a test speaks for, on virtual time: what counts as renewed, and which nodes get the lease back. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { RenewOutcome } from '../../../lib/core/port/lock-store.js';
import type { Ballot } from '../../../lib/stores/redlock/ballot.js';
import { Deadlines } from '../../../lib/stores/redlock/deadlines.js';
import { quorumOf } from '../../../lib/stores/redlock/quorum.js';
import { renewByQuorum } from '../../../lib/stores/redlock/quorum-renewals.js';
import type { RenewedThere } from '../../../lib/stores/redlock/node-vote.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { FakeClock } from '../../support/fake-clock.js';

const LEASE_MS = 1_000;

type Word = 'has it' | 'lost it' | 'had it taken' | 'may have had it taken' | 'fails' | 'has it, late' | 'had it taken, late';

/** What became of the renewal, and the nodes that were given the lease back, by their places. */
async function renewal(words: readonly Word[], mayOutlive = true, isTakenBack = false): Promise<{ kind: RenewOutcome['kind']; givenBack: number[] }> {
  const clock = new FakeClock();
  const nodes = words.map((word) => ({
    fellSilent: () => {},
    async renew(): Promise<readonly (RenewedThere | undefined)[]> {
      await delay(clock, word.endsWith(', late') ? LEASE_MS / 2 : 1);
      if (word === 'fails') throw new LockStoreError('out of order');
      return [word.startsWith('has it') ? { end: clock.now() + LEASE_MS, contended: false } : undefined];
    },
  })) as unknown as RedlockNode[];
  const givenBack: number[] = [];
  const rejoin = async (node: RedlockNode): Promise<void> => void givenBack.push(nodes.indexOf(node));
  const wasTakenFrom = (node: RedlockNode): boolean => words[nodes.indexOf(node)] === 'had it taken';
  const mayBeTakenFrom = (node: RedlockNode): boolean => wasTakenFrom(node) || words[nodes.indexOf(node)] === 'may have had it taken' || words[nodes.indexOf(node)] === 'had it taken, late';
  const standing = { lasts: () => {}, renewed: () => {}, keptBy: () => {}, mayOutlive: () => mayOutlive, wasTakenFrom, mayBeTakenFrom };
  const ballot = { key: 'k', id: 'p.1/1', state: 'held', standing, rejoin } as unknown as Ballot;
  const requests = [{ key: 'k', id: 'p.1', leaseMs: LEASE_MS, minReplicas: 0 }];
  const renewing = renewByQuorum(requests, { nodes, quorum: quorumOf(nodes.length), clock, deadlines: new Deadlines(clock), commandTimeoutMs: 2_000 }, () => ballot);
  if (isTakenBack) Object.assign(ballot, { state: 'over' });
  const [outcome] = await clock.runUntil(renewing);
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

  it('S3: is lost when a quorum of nodes had it taken away by a forced release, though another node has it still', async () => {
    expect(await renewal(['has it', 'had it taken', 'had it taken', 'had it taken', 'has it'])).toEqual({ kind: 'lost', givenBack: [] });
    expect(await renewal(['had it taken', 'had it taken', 'had it taken', 'had it taken', 'has it'])).toEqual({ kind: 'lost', givenBack: [] });
  });

  it('S3: gives it back to no node that had it taken away, though a quorum has it still, for more may be about to let it go', async () => {
    expect(await renewal(['has it', 'had it taken', 'had it taken', 'fails', 'has it'])).toEqual({ kind: 'unknown', givenBack: [] });
    expect(await renewal(['has it', 'had it taken', 'lost it', 'has it', 'has it'])).toEqual({ kind: 'renewed', givenBack: [2] });
    expect(await renewal(['has it', 'may have had it taken', 'lost it', 'has it', 'has it'])).toEqual({ kind: 'renewed', givenBack: [1, 2] });
  });

  it('S3: is lost when one node had it taken away and no quorum has it, for a quorum may have confirmed that', async () => {
    expect(await renewal(['has it', 'lost it', 'had it taken', 'lost it', 'has it'])).toEqual({ kind: 'lost', givenBack: [] });
    expect(await renewal(['has it', 'lost it', 'may have had it taken', 'lost it', 'has it'])).toEqual({ kind: 'lost', givenBack: [] });
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
    const held = (id: string): Ballot => ({ key: id, id: `${id}/1`, state: 'held', standing: { lasts: () => {}, keptBy: () => {}, wasTakenFrom: () => false, mayBeTakenFrom: () => false, mayOutlive: () => true, renewed: () => {} } }) as unknown as Ballot;
    const requests = [30_000, 150, 30_000, 400].map((leaseMs, n) => ({ key: `p.${n}`, id: `p.${n}`, leaseMs, minReplicas: 0 }));
    const outcomes = await clock.runUntil(renewByQuorum(requests, { nodes, quorum: quorumOf(nodes.length), clock, deadlines: new Deadlines(clock), commandTimeoutMs: 2_000 }, held));
    expect(outcomes.map(({ kind }) => kind)).toEqual(['renewed', 'unknown', 'renewed', 'renewed']);
  });
});

/** A lease of the batch as each node sees it: for how long it has it, or not at all. */
interface Held {
  readonly ends: readonly (number | undefined)[];
  readonly leaseMs?: number;
  readonly graceMs?: number;
  readonly minReplicas?: number;
  readonly state?: Ballot['state'];
  readonly contended?: readonly number[];
}

/** Renews leases on three nodes, of which each answers after its time. */
async function renewAll(leases: readonly Held[], afterMs: readonly (number | 'fails')[] = [1, 1, 1]) {
  const clock = new FakeClock();
  const start = clock.now();
  const seen: string[] = [];
  const told: string[] = [];
  const sent: { node: number; ids: string[]; timeoutMs: number }[] = [];
  const nodes = afterMs.map((after, node) => ({
    name: 'abc'[node],
    heardAt: -Infinity,
    fellSilent: () => {},
    async renew(parts: readonly { id: string; leaseMs: number; graceMs: number }[], timeoutMs: number) {
      sent.push({ node, ids: parts.map(({ id, leaseMs, graceMs }) => `${id} ${leaseMs} ${graceMs}`), timeoutMs });
      await delay(clock, after === 'fails' ? 1 : after);
      if (after === 'fails') throw new LockStoreError('out of order', { nodes: [{ node: 'abc'[node]!, reason: 'LOADING' }] });
      return parts.map(({ id }) => {
        const { ends, contended = [] } = leases[Number(id)]!;
        return ends[node] === undefined ? undefined : { end: start + ends[node]!, contended: contended.includes(node) };
      });
    },
  })) as unknown as RedlockNode[];
  const ballots = leases.map(({ graceMs = 0, state = 'held' }, n) => ({
    key: `k${n}`, id: `${n}`, graceMs, state,
    standing: {
      lasts: (ms: number) => void told.push(`${n} lasts ${ms}`),
      renewed: (until: number) => void told.push(`${n} renewed to ${until - start}`),
      mayOutlive: () => true, wasTakenFrom: () => false, mayBeTakenFrom: () => false,
      keptBy: (node: RedlockNode, until: number) => void seen.push(`${n} on ${node.name} to ${until - start}`),
    },
    rejoin: (node: RedlockNode, leaseMs: number) => void told.push(`${n} rejoins ${node.name} for ${leaseMs}`),
  })) as unknown as Ballot[];
  const requests = leases.map(({ leaseMs = LEASE_MS, minReplicas = 0 }, n) => ({ key: `k${n}`, id: `${n}`, leaseMs, minReplicas }));
  const outcomes = await clock.runUntil(renewByQuorum(requests, { nodes, quorum: quorumOf(nodes.length), clock, deadlines: new Deadlines(clock), commandTimeoutMs: 2_000 }, (id) => ballots[Number(id)]));
  const tookMs = clock.now() - start;
  await clock.advance(5_000);
  return { outcomes, told, seen, sent, tookMs, start };
}

describe('Leases that are renewed together', () => {
  it('are asked for with the lengths that each has, last that long and a little more, and are trusted until a quorum ends', async () => {
    const { outcomes, told, sent, start } = await renewAll([{ ends: [900, 950, 980], leaseMs: 1_000.7 }, { ends: [890, undefined, 970], leaseMs: 1_010, graceMs: 300 }]);
    expect(outcomes).toEqual([{ kind: 'renewed', trustedUntil: start + 950, contended: false }, { kind: 'renewed', trustedUntil: start + 890, contended: false }]);
    expect(told.sort()).toEqual(['0 lasts 2000', '0 renewed to 950', '1 lasts 2310', '1 rejoins b for 1010', '1 renewed to 890'].sort());
    expect(sent.map(({ ids }) => ids)).toEqual([['0 1000 0', '1 1010 300'], ['0 1000 0', '1 1010 300'], ['0 1000 0', '1 1010 300']]);
    expect(sent[0]!.timeoutMs).toBeCloseTo(333.3, 0);
  });

  it('with long leases are asked for within the time of a command', async () => {
    expect((await renewAll([{ ends: [1, 1, 1], leaseMs: 30_000 }])).sent[0]!.timeoutMs).toBe(2_000);
  });

  it('are answered as soon as each of them has its quorum, and no sooner', async () => {
    expect((await renewAll([{ ends: [900, 900, 900] }], [1, 2, 150])).tookMs).toBe(2);
    expect((await renewAll([{ ends: [900, 900, 900] }, { ends: [900, undefined, 900] }], [1, 2, 150])).tookMs).toBe(150);
  });

  it('are given back to a node that answers late, and not to one that fails late', async () => {
    expect((await renewAll([{ ends: [900, 900, undefined] }], [1, 2, 150])).told).toContain('0 rejoins c for 1000');
    expect((await renewAll([{ ends: [900, 900, undefined] }], [1, 2, 'fails'])).told.join()).not.toContain('rejoins');
  });

  it('are known to be on each node that has them, also one that answers late, and until when', async () => {
    const { seen } = await renewAll([{ ends: [900, 950, 980] }, { ends: [890, undefined, 970] }], [1, 2, 150]);
    expect(seen.sort()).toEqual(['0 on a to 900', '0 on b to 950', '0 on c to 980', '1 on a to 890', '1 on c to 970']);
  });

  it('are contended when one node says that somebody waits', async () => {
    expect((await renewAll([{ ends: [900, 900, 900], contended: [1] }])).outcomes).toMatchObject([{ contended: true }]);
  });

  it('are not asked for when they are held no more, or when replicas should have them', async () => {
    const { outcomes, sent } = await renewAll([{ ends: [1, 1, 1], state: 'over' }, { ends: [1, 1, 1], minReplicas: 1 }]);
    expect(outcomes).toEqual([{ kind: 'lost' }, { kind: 'unknown', cause: expect.objectContaining({ key: 'k1', message: expect.stringContaining('minReplicas') }) }]);
    expect(sent).toEqual([]);
  });

  it('that are in doubt name what each node said', async () => {
    const { outcomes, told } = await renewAll([{ ends: [900, undefined, 900] }], [1, 1, 'fails']);
    expect(outcomes).toMatchObject([{ kind: 'unknown', cause: { message: `Lock 'k0': no quorum of 3 nodes for a renewal (a: renewed; b: lost; c: LOADING). It is safe to try again.` } }]);
    expect(told).toEqual(['0 lasts 2000', '0 rejoins b for 1000']);
  });

  it('are in doubt while one of three nodes has one, and lost when none has it', async () => {
    const { outcomes } = await renewAll([{ ends: [900, undefined, undefined] }, { ends: [undefined, undefined, undefined] }]);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['unknown', 'lost']);
  });

  it('go to a node in commands of 250 at most', async () => {
    const { sent } = await renewAll(Array.from({ length: 251 }, () => ({ ends: [900, 900, 900] })));
    expect(sent.filter(({ node }) => node === 0).map(({ ids }) => ids.length).sort((one, other) => other - one)).toEqual([250, 1]);
  });
});
