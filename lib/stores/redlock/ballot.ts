/**
 * One attempt to get one lock from the nodes, and the lease if the attempt succeeds. Every attempt has an id of its own on the
 * nodes, so that late requests of an old attempt, which take the lock or take it back, can never touch a new attempt.
 *
 *     open ──(a quorum granted, one fence, time left)──▶ held ──▶ over   released or lost
 *       └──(refused, failed, cancelled)────────────────────────▶ over   and taken back wherever it may stand
 */
import { LockStoreError } from '../../core/port/errors.js';
import type { AcquireOutcome, Grant } from '../../core/port/lock-store.js';
import { marginOf } from '../wire/server-clock.js';
import { agreeOnFence, correctFence } from './fence-agreement.js';
import { answersOf, noQuorum, poll, voteTimeoutMs, type Hear, type Reply } from './poll.js';
import type { QuorumContext } from './quorum-context.js';
import { reasonOf, sharedWord, wordOf, type GrantedVote, type Leaving, type Mark, type NodeVote, type VoteRequest } from './node-vote.js';
import { quorumEnd, quorumOf, verdict } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';
import { retryPause } from './retry-pause.js';

/** As `waitedMs`: the vote is for a lock that other nodes granted already, and goes before all who wait. */
const HAS_IT_ELSEWHERE = -2;

type Replies = ReadonlyMap<RedlockNode, Reply<NodeVote>>;

export class Ballot {
  state: 'open' | 'held' | 'over' = 'open';
  /** The first fence of the grant; 0 until a quorum has voted. */
  fence = 0;
  /** Nobody has worked under this ballot, so that no minHoldMs is owed where it is taken back. */
  abandoned = true;
  /** The process that should have the lock next, if one waits for it. */
  next: string | undefined;
  /** Nodes on which a forced release took the lock away. */
  readonly takenOn = new Set<RedlockNode>();
  /** The local instant until which a quorum is known to have the ballot. */
  trustedUntil = -Infinity;
  /** The local instant at which the ballot has ended by itself on every node. */
  private endsAt = 0;
  private castAt = 0;
  /** How many nodes granted the lock itself, and not a share in its owner's hold. */
  private plain = 0;
  /** Others have the lock or come first: the holder keeps its mark on each node when the ballot is taken back. */
  private wasBusy = false;
  private overAt = Infinity;
  private heardAt = 0;
  private readonly votes = new Map<RedlockNode, GrantedVote>();
  private readonly asked = new Set<RedlockNode>();
  /** Nodes that were asked for it and did not answer, each with the instant until which the request may still act. */
  private readonly mute = new Map<RedlockNode, number>();

  constructor(
    private readonly context: QuorumContext,
    /** The holder's id at the port. */
    readonly holder: string,
    private wish: VoteRequest,
  ) {}

  get key(): string {
    return this.wish.on.key;
  }

  /** The ballot's id on the nodes. */
  get id(): string {
    return this.wish.id;
  }

  get leaseMs(): number {
    return this.wish.leaseMs;
  }

  get graceMs(): number {
    return this.wish.graceMs;
  }

  /** Asks all nodes. Rejects with LockStoreError when no quorum answered. Unless it is granted, the ballot is over then. */
  async cast(notAfter: number): Promise<AcquireOutcome> {
    const { nodes, clock, deadlines, commandTimeoutMs, floors } = this.context;
    this.castAt = this.heardAt = clock.now();
    const limit = Math.min(notAfter, this.castAt + Math.max(this.leaseMs, commandTimeoutMs));
    const proposal = Math.max(floors.of(this.wish.on.group) + 1, Math.floor(clock.wallNow()) * 1_000);
    // A silent node is not asked while the others are a quorum, so that nobody waits for it.
    const isSpared = nodes.some(({ silent }) => silent) && nodes.filter((node) => node.connected && !node.silent).length >= quorumOf(nodes.length);
    this.lasts(limit - this.castAt + Math.max(this.leaseMs, this.wish.minHoldMs) + this.graceMs);
    const { result, replies } = await poll({
      nodes,
      clock,
      deadlines,
      timeoutMs: voteTimeoutMs(this.leaseMs, commandTimeoutMs),
      ask: (node, hear) => {
        if (isSpared && node.silent) return hear({ kind: 'failure', error: node.failure('silent', this.key) });
        this.ask(node, this.wish, proposal, limit, hear);
      },
      decide: (replies: Replies) => {
        if (this.plain >= quorumOf(nodes.length)) return { result: 'granted', replies };
        const result = verdict(nodes.map((node) => wordOf(replies.get(node))));
        return result === undefined ? undefined : { result, replies: new Map(replies) };
      },
    });
    this.context.tookMs = this.tookMs;
    try {
      if (this.state === 'over') return this.busy([]);
      if (result === 'granted' || result.startsWith('shared')) {
        const ends = this.settle(result);
        return this.granted(ends instanceof Promise ? await ends : ends);
      }
      return this.refused(replies, result);
    } finally {
      // A release may have ended the ballot meanwhile. Otherwise only a granted ballot goes on.
      if (this.state === 'open') this.end();
    }
  }

  /** The grant, as its holder may trust it now. */
  grantUntil(trustedUntil: number): Grant {
    const { fence, next, wish: { fences, mode } } = this;
    return { fence, fences, mode, trustedUntil, contended: next !== undefined };
  }

  downgraded(): void {
    this.wish = { ...this.wish, mode: 'read' };
  }

  mayStandOn(node: RedlockNode): boolean {
    return this.asked.has(node);
  }

  get endsBy(): number {
    return this.endsAt;
  }

  /** Notes that the ballot was, or may have been, prolonged just now by `forMs`. */
  lasts(forMs: number): void {
    this.endsAt = Math.max(this.endsAt, this.context.clock.now() + forMs + marginOf(forMs));
  }

  /** Whether the lease may go on although a quorum of nodes lacks it: no operator released it, and it can still be trusted. */
  mayOutlive(now: number): boolean {
    return this.takenOn.size === 0 && now < this.trustedUntil;
  }

  /**
   * Puts a held lock back on a node that does not have it. Until `trustedUntil` no other process can have been granted the
   * lock: the nodes that granted this one have it, or forgot it and stay in quarantine for longer.
   */
  rejoin(node: RedlockNode, leaseMs: number): void {
    // Without a limit the vote might come too late and take the lock for a holder that has lost it.
    if (this.state !== 'held' || node.silent || !node.keepsLimits) return;
    const again = { ...this.wish, leaseMs, minHoldMs: 0, waitedMs: HAS_IT_ELSEWHERE, patienceMs: 0 };
    this.ask(node, again, this.fence, this.trustedUntil, () => {}); // after a failure the next renewal tries again
  }

  /** Ends the ballot. The caller releases it on the nodes, at once. */
  finish(abandoned = false): Leaving {
    this.state = 'over';
    this.overAt = this.context.clock.now();
    this.abandoned ||= abandoned;
    return { ...this.leaving, askedAt: this.overAt };
  }

  /** Ends the ballot and takes it back from all nodes on which it may stand. */
  end(): void {
    const { mode, waitedMs, patienceMs } = this.wish;
    this.state = 'over';
    this.overAt = this.context.clock.now();
    const isWanted = this.wasBusy && waitedMs >= 0;
    const mark = isWanted ? { mode, waitedMs: waitedMs + this.overAt - this.castAt, patienceMs } : undefined;
    for (const node of this.asked) this.withdraw(node, mark);
  }

  withdraw(node: RedlockNode, mark?: Mark): void {
    const { leaving, endsAt: until, mute, context } = this;
    context.withdrawals.add({ node, ...leaving, mark, until, lateUntil: mute.get(node) });
  }

  /** Notes that the node released the ballot. A vote request that the node did not answer may still come: it is taken back too. */
  released(node: RedlockNode): void {
    if (this.mute.has(node)) this.withdraw(node);
  }

  /** What the nodes are told when the ballot is taken back or released. */
  get leaving(): Leaving {
    const { wish: { on, id }, abandoned, next } = this;
    return { on, id, mayBeOver: this.overAt >= this.trustedUntil, abandoned, next };
  }

  /** How long the nodes that answered took, in ms. */
  private get tookMs(): number {
    return this.heardAt - this.castAt;
  }

  private ask(node: RedlockNode, request: VoteRequest, proposal: number, limit: number, hear: Hear<NodeVote>): void {
    if (node.connected) this.asked.add(node);
    node.vote(request, proposal, limit, (reply) => {
      if (reply.kind === 'answer') this.heard(node, reply.answer);
      else this.unheard(node, limit);
      hear(reply);
    });
  }

  /** The node did not answer. Until `limit` the request may still act there. */
  private unheard(node: RedlockNode, limit: number): void {
    if (this.asked.has(node)) this.mute.set(node, limit);
    if (this.state === 'over') this.released(node);
  }

  private heard(node: RedlockNode, vote: NodeVote): void {
    if (this.state === 'open') this.heardAt = node.heardAt;
    if (vote.kind === 'quarantined' || vote.kind === 'not admitted') this.context.forgetful(node);
    if (vote.kind !== 'granted') return void this.asked.delete(node);
    this.context.floors.saw(this.wish.on.group, vote.fence + this.wish.fences - 1);
    if (!vote.shared) this.plain += 1;
    // This vote may have come after our release: a script that the server did not know is sent again, behind it.
    if (this.state === 'over') void (vote.sentAt >= this.overAt && this.withdraw(node));
    else if (this.fence === 0) this.votes.set(node, vote);
    else if (vote.fence !== this.fence) correctFence(node, this.wish, this.fence);
  }

  /** Agrees on one fence. Tells when the votes for it end. */
  private settle(result: string): readonly number[] | Promise<readonly number[]> {
    const { votes, context } = this;
    const shared = [...votes.values()].find((vote) => sharedWord(vote) === result);
    if (shared !== undefined) this.wish = { ...this.wish, mode: shared.mode, fences: 1 };
    this.fence = shared?.fence ?? Math.max(...[...votes.values()].map(({ fence }) => fence));
    return agreeOnFence(this.fence, this.wish, votes, context);
  }

  private granted(ends: readonly number[]): AcquireOutcome {
    if (this.state === 'over') return this.busy([]);
    const { nodes, clock } = this.context;
    const trustedUntil = quorumEnd(ends, nodes.length);
    if (clock.now() >= trustedUntil) {
      const message = `Lock '${this.key}': a quorum granted it, but its ${this.leaseMs} ms were over before all had answered. It is safe to try again.`;
      throw new LockStoreError(message, { key: this.key });
    }
    this.state = 'held';
    this.trustedUntil = trustedUntil;
    this.abandoned = false;
    for (const { next } of this.votes.values()) this.next ??= next;
    return { kind: 'granted', grant: this.grantUntil(trustedUntil) };
  }

  private refused(replies: Replies, result: string): AcquireOutcome {
    if (result === 'upgrade' || result === 'full') return { kind: result };
    const answers = answersOf(replies).map(([, vote]) => vote);
    // Without answers from a quorum nobody knows whether the lock is busy.
    const failures = replies.size - answers.length;
    const against = answers.filter((vote) => vote.kind === 'busy' || vote.kind === 'upgrade' || vote.kind === 'full' || (vote.kind === 'granted' && vote.shared));
    const unreachable = failures > this.context.nodes.length - quorumOf(this.context.nodes.length);
    if (unreachable || against.length === 0) throw noQuorum('a grant', this.key, this.context.nodes, replies, reasonOf);
    return this.busy(against);
  }

  private busy(votes: readonly NodeVote[]): AcquireOutcome {
    this.wasBusy = this.state === 'open';
    const leftMs = Math.max(0, ...votes.map((vote) => (vote.kind === 'busy' ? vote.leftMs : Infinity)));
    return { kind: 'busy', retryInMs: retryPause({ waitedMs: Math.max(0, this.wish.waitedMs), tookMs: this.tookMs, leftMs }, Math.random()) };
  }
}
