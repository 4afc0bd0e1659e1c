/** One attempt on five nodes that a test speaks for, on virtual time. */
import { delay } from '../../lib/core/port/clock.js';
import { LockStoreError } from '../../lib/core/port/errors.js';
import type { AcquireOutcome, AcquireRequest } from '../../lib/core/port/lock-store.js';
import { FenceFloors } from '../../lib/stores/wire/fence-floors.js';
import { RedisKeys } from '../../lib/stores/wire/redis-keys.js';
import { marginOf } from '../../lib/stores/wire/server-clock.js';
import { Deadlines } from '../../lib/stores/redlock/deadlines.js';
import { Ballot } from '../../lib/stores/redlock/ballot.js';
import type { Leaving, Mark, NodeVote, VoteRequest } from '../../lib/stores/redlock/node-vote.js';
import { voteRequestOf } from '../../lib/stores/redlock/node-vote.js';
import { hearing, type Hear } from '../../lib/stores/redlock/poll.js';
import type { RedlockNode } from '../../lib/stores/redlock/redlock-node.js';
import { Withdrawals } from '../../lib/stores/redlock/withdrawals.js';
import { FakeClock } from './fake-clock.js';

export const ON = new RedisKeys('lock').nodeSpotOf('k');
export const LEASE_MS = 1_000;

/** A node as a test wants it: it answers `says` after `afterMs`, and remembers what it was asked. */
export class FakeNode {
  silent = false;
  heardAt = -Infinity;
  runId = 'first';
  connected = true;
  keepsLimits = true;
  says: Partial<Extract<NodeVote, { kind: 'granted' }>> | Exclude<NodeVote, { kind: 'granted' }> | 'fails' | 'mute' = {};
  afterMs = 1;
  raises: boolean | 'fails' = true;
  readonly acts: string[] = [];
  readonly marks: Mark[] = [];
  /** What it was told when the ballot was released or taken back. */
  readonly left: Leaving[] = [];
  /** The requests for votes, each with its limit. */
  readonly votes: { readonly request: VoteRequest; readonly limit: number }[] = [];

  constructor(
    readonly name: string,
    private readonly clock: FakeClock,
  ) {}

  vote(request: VoteRequest, proposal: number, limit: number, hear: Hear<NodeVote>): void {
    this.votes.push({ request, limit });
    this.acts.push(`vote ${request.id}`);
    hearing(this.voteOn(request, proposal), hear);
  }

  private async voteOn({ leaseMs }: VoteRequest, proposal: number): Promise<NodeVote> {
    const sentAt = this.clock.now();
    await this.answers(this.says === 'mute' ? 1_000_000 : this.afterMs);
    if (this.says === 'fails') throw this.failure('out of order');
    if (this.says !== 'mute' && this.says.kind !== undefined && this.says.kind !== 'granted') return this.says as NodeVote;
    const granted = { kind: 'granted', fence: proposal, mode: 'write', end: sentAt + leaseMs - marginOf(leaseMs), shared: false, sentAt } as const;
    return { ...granted, ...(this.says as Partial<typeof granted>) };
  }

  async raiseFence({ id }: VoteRequest, fence: number): Promise<boolean> {
    this.acts.push(`raise ${id} ${fence}`);
    await this.answers(1);
    if (this.raises === 'fails') throw this.failure('out of order');
    return this.raises;
  }

  fellSilent(): void {
    this.silent = true;
  }

  release(leaving: Leaving, hear: Hear<'released'>): void {
    const { id, mark } = leaving;
    this.left.push(leaving);
    this.acts.push(`release ${id}`);
    if (mark !== undefined) this.marks.push(mark);
    hearing(this.answers(1).then(() => 'released' as const), hear);
  }

  failure(reason: string): LockStoreError {
    return new LockStoreError(reason, { nodes: [{ node: this.name, reason }] });
  }

  private async answers(afterMs: number): Promise<void> {
    await delay(this.clock, afterMs);
    this.heardAt = this.clock.now();
  }
}

export interface Stage {
  readonly clock: FakeClock;
  readonly nodes: readonly [FakeNode, FakeNode, FakeNode, FakeNode, FakeNode];
  readonly ballot: Ballot;
  /** What this process has seen. */
  readonly floors: FenceFloors;
  /** What the store was told: which nodes forgot, and how long the nodes took. */
  readonly told: readonly string[];
  cast(notAfter?: number): Promise<AcquireOutcome>;
  /** The names of the nodes that were asked to do this. */
  asked(act: string): string;
}

/** @param waitedMs how long the request has been refused for; -1 when it does not wait */
export function onStage(play: (stage: Stage) => Promise<void>, waitedMs = -1, how: Partial<AcquireRequest> = {}): () => Promise<void> {
  // A test that runs again begins anew.
  return () => {
    const clock = new FakeClock();
    const nodes = ['a', 'b', 'c', 'd', 'e'].map((name) => new FakeNode(name, clock)) as unknown as Stage['nodes'];
    const floors = new FenceFloors();
    const told: string[] = [];
    const context = {
      nodes: nodes as unknown as RedlockNode[],
      quorum: 3,
      clock,
      commandTimeoutMs: 2_000,
      floors,
      withdrawals: new Withdrawals(clock),
      answeredIn: (tookMs: number) => void told.push(`took ${tookMs}`),
      deadlines: new Deadlines(clock),
      forgetful: (node: RedlockNode) => void told.push(`${node.name} forgot`),
    };
    const request = { key: 'k', id: 'p.1', mode: 'write', leaseMs: LEASE_MS, queue: false, fences: 1, minHoldMs: 0, minReplicas: 0, notAfter: Infinity, ...how } as const;
    const ballot = new Ballot(context, request.id, voteRequestOf(request, ON, 'p.1/1', waitedMs, 0));
    const asked = (act: string): string => nodes.filter(({ acts }) => acts.includes(act)).map(({ name }) => name).join('');
    return clock.runUntil(play({ clock, nodes, ballot, floors, told, cast: (notAfter = Infinity) => ballot.cast(notAfter), asked }));
  };
}

export const granted = (outcome: AcquireOutcome): Extract<AcquireOutcome, { kind: 'granted' }>['grant'] => {
  if (outcome.kind !== 'granted') throw new Error(`expected a grant, got ${outcome.kind}`);
  return outcome.grant;
};

