/**
 * One attempt to get one lock from the nodes, and the lease if the attempt succeeds. Every attempt has an id of its own on the
 * nodes, so that late requests of an old attempt, which take the lock or take it back, can never touch a new attempt.
 *
 *     open ──(a quorum granted, one fence, time left)──▶ held ──▶ over   released or lost
 *       └──(refused, failed, cancelled)────────────────────────▶ over   and taken back wherever it may stand
 */
import { LockStoreError } from '../../core/port/errors.js';
import type { AcquireOutcome, Grant } from '../../core/port/lock-store.js';
import { agreeOnFence, correctFence } from './fence-agreement.js';
import { answersOf, noQuorum, poll, voteTimeoutMs, type Hear, type Reply } from './poll.js';
import type { QuorumContext } from './quorum-context.js';
import { HAS_IT_ELSEWHERE, textOfVote, wordOf, type GrantedVote, type Leaving, type NodeVote, type VoteRequest, type Word } from './node-vote.js';
import { quorumEnd, verdict } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';
import { retryPause } from './retry-pause.js';
import { Standing } from './standing.js';

type Replies = ReadonlyMap<RedlockNode, Reply<NodeVote>>;

interface Decision {
  readonly result: Word | 'split';
  readonly replies: Replies;
}

export class Ballot {
  state: 'open' | 'held' | 'over' = 'open';
  readonly standing: Standing;
  /** The first fence of the grant; 0 until a quorum has voted. */
  private fence = 0;
  private castAt = 0;
  /** How many nodes granted the lock itself, and not a share in its owner's hold. */
  private plain = 0;
  /** Whether others have the lock or come first: then the holder keeps its mark on each node when the ballot is taken back. */
  private wasBusy = false;
  /** Whether somebody waits for the lock, perhaps another request of this process. */
  private isWanted = false;
  private heardAt = 0;
  private readonly votes = new Map<RedlockNode, GrantedVote>();

  constructor(
    private readonly context: QuorumContext,
    /** The holder's id at the port. */
    readonly holder: string,
    private request: VoteRequest,
  ) {
    this.standing = new Standing(context, request.on, request.id);
  }

  get key(): string {
    return this.request.on.key;
  }

  /** The ballot's id on the nodes. */
  get id(): string {
    return this.request.id;
  }

  get leaseMs(): number {
    return this.request.leaseMs;
  }

  get graceMs(): number {
    return this.request.graceMs;
  }

  /** Asks all nodes. Rejects with LockStoreError when no quorum answered. Unless it is granted, the ballot is over then. */
  async cast(notAfter: number): Promise<AcquireOutcome> {
    const { nodes, quorum, clock, deadlines, commandTimeoutMs, floors } = this.context;
    this.castAt = this.heardAt = clock.now();
    const limit = Math.min(notAfter, this.castAt + Math.max(this.leaseMs, commandTimeoutMs));
    const proposal = Math.max(floors.of(this.request.on.group) + 1, Math.floor(clock.wallNow()) * 1_000);
    // A silent node is not asked while the others are a quorum, so that nobody waits for it.
    const isSpared = nodes.some(({ silent }) => silent) && nodes.filter((node) => node.connected && !node.silent).length >= quorum;
    this.standing.lasts(limit - this.castAt + Math.max(this.leaseMs, this.request.minHoldMs) + this.graceMs);
    const { result, replies } = await poll({
      nodes,
      deadlines,
      timeoutMs: voteTimeoutMs(this.leaseMs, commandTimeoutMs),
      ask: (node, hear) => {
        if (isSpared && node.silent) return hear({ kind: 'failure', error: node.failure('silent', this.key) });
        this.ask(node, this.request, proposal, limit, hear);
      },
      decide: (replies: Replies): Decision | undefined => {
        if (replies.size < quorum) return undefined;
        if (this.plain >= quorum) return { result: 'granted', replies };
        const result = verdict(nodes.map((node) => wordOf(replies.get(node))));
        return result === undefined ? undefined : { result, replies: new Map(replies) };
      },
    });
    this.context.answeredIn(this.tookMs);
    try {
      if (this.state === 'over') return this.busy([]);
      if (result !== 'granted' && typeof result !== 'number') return this.refused(replies, result);
      const ends = this.agree(result);
      return this.granted(ends instanceof Promise ? await ends : ends);
    } finally {
      // A release may have ended the ballot meanwhile. Otherwise only a granted ballot goes on.
      if (this.state === 'open') this.takeBack();
    }
  }

  /** The grant, as its holder may trust it now. */
  grantUntil(trustedUntil: number): Grant {
    const { fence, request: { fences, mode } } = this;
    return { fence, fences, mode, trustedUntil, contended: this.isWanted };
  }

  downgraded(): void {
    this.request = { ...this.request, mode: 'read' };
  }

  /**
   * Puts a held lock back on a node that does not have it. Until `trustedUntil` no other process can have been granted the
   * lock: the nodes that granted this one have it, or forgot it and stay in quarantine for longer.
   */
  rejoin(node: RedlockNode, leaseMs: number): void {
    // Without a limit the vote might come too late and take the lock for a holder that has lost it.
    if (this.state !== 'held' || !this.standing.mayOutlive(this.context.clock.now()) || node.silent || !node.keepsLimits) return;
    const again = { ...this.request, leaseMs, minHoldMs: 0, waitedMs: HAS_IT_ELSEWHERE, patienceMs: 0 };
    // After a failure the next renewal tries again.
    this.ask(node, again, this.fence, this.standing.trustedUntil, () => {});
  }

  /** Ends the ballot. The caller releases it on the nodes, at once. */
  close(abandoned = false): Leaving {
    this.state = 'over';
    return this.standing.end(abandoned);
  }

  /** Ends the ballot and takes it back from all nodes on which it may stand. */
  takeBack(): void {
    const { mode, waitedMs, patienceMs } = this.request;
    this.close();
    const goesOn = this.wasBusy && waitedMs >= 0;
    const mark = goesOn ? { mode, waitedMs: waitedMs + this.context.clock.now() - this.castAt, patienceMs } : undefined;
    this.standing.withdrawAll(mark);
  }

  /** How long the nodes that answered took, in ms. */
  private get tookMs(): number {
    return this.heardAt - this.castAt;
  }

  private ask(node: RedlockNode, request: VoteRequest, proposal: number, limit: number, hear: Hear<NodeVote>): void {
    this.standing.asks(node);
    node.vote(request, proposal, limit, (reply) => {
      if (reply.kind === 'answer') this.heard(node, reply.answer);
      else this.standing.noAnswerFrom(node, limit);
      hear(reply);
    });
  }

  private heard(node: RedlockNode, vote: NodeVote): void {
    this.heardAt = node.heardAt;
    if (vote.kind === 'quarantined' || vote.kind === 'not admitted') this.context.forgetful(node);
    if (vote.kind !== 'granted') return this.standing.refusedBy(node);
    this.context.floors.saw(this.request.on.group, vote.fence + this.request.fences - 1);
    if (!vote.shared) this.plain += 1;
    this.standing.keptBy(node, vote.end);
    if (this.state === 'over') this.standing.grantedLateBy(node, vote.sentAt);
    else if (this.fence === 0) this.votes.set(node, vote);
    else if (vote.fence !== this.fence) correctFence(node, this.request, this.fence);
  }

  /** Agrees on one fence: the greatest of the votes, or that of the owner's hold that is shared. Tells when the votes for it end. */
  private agree(result: 'granted' | number): readonly number[] | Promise<readonly number[]> {
    const { votes, context } = this;
    const shared = [...votes.values()].find((vote) => vote.shared && vote.fence === result);
    if (shared !== undefined) this.request = { ...this.request, mode: shared.mode, fences: 1 };
    this.fence = shared?.fence ?? Math.max(...[...votes.values()].map(({ fence }) => fence));
    return agreeOnFence(this.fence, this.request, votes, context);
  }

  private granted(ends: readonly number[]): AcquireOutcome {
    if (this.state === 'over') return this.busy([]);
    const { quorum, clock } = this.context;
    const trustedUntil = quorumEnd(ends, quorum);
    if (clock.now() >= trustedUntil) {
      const message = `Lock '${this.key}': a quorum granted it, but its ${this.leaseMs} ms were over before all had answered. It is safe to try again.`;
      throw new LockStoreError(message, { key: this.key });
    }
    this.state = 'held';
    this.standing.granted(trustedUntil);
    for (const { next } of this.votes.values()) {
      if (next === undefined) continue;
      this.isWanted = true;
      this.standing.wantedBy(next);
    }
    return { kind: 'granted', grant: this.grantUntil(trustedUntil) };
  }

  private refused(replies: Replies, result: Exclude<Word, 'granted' | number> | 'split'): AcquireOutcome {
    if (result === 'upgrade' || result === 'full') return { kind: result };
    const answers = answersOf(replies).map(([, vote]) => vote);
    // Without answers from a quorum nobody knows whether the lock is busy.
    const { nodes, quorum } = this.context;
    const failures = replies.size - answers.length;
    const against = answers.filter(isAgainst);
    const unreachable = failures > nodes.length - quorum;
    if (unreachable || against.length === 0) throw noQuorum('a grant', this.key, nodes, replies, textOfVote);
    return this.busy(against);
  }

  private busy(votes: readonly NodeVote[]): AcquireOutcome {
    this.wasBusy = this.state === 'open';
    const leftMs = Math.max(0, ...votes.map((vote) => (vote.kind === 'busy' ? vote.leftMs : Infinity)));
    return { kind: 'busy', retryInMs: retryPause({ waitedMs: Math.max(0, this.request.waitedMs), tookMs: this.tookMs, leftMs }, Math.random()) };
  }
}

/** Whether the answer says that others have the lock, or that its owner has it already. */
function isAgainst(vote: NodeVote): boolean {
  return vote.kind === 'busy' || vote.kind === 'upgrade' || vote.kind === 'full' || (vote.kind === 'granted' && vote.shared);
}
