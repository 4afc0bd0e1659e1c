/**
 * One attempt to get one lock from the nodes, and the lease if the attempt succeeds. Every attempt has an id of its own on the
 * nodes, so that late requests of an old attempt, which take the lock or take it back, can never touch a new attempt.
 *
 *     open ──(a quorum granted, one fence, time left)──▶ held ──▶ over   released or lost
 *       └──(refused, failed, cancelled)────────────────────────▶ over   and taken back wherever it may stand
 */
import { LockStoreError } from '../../core/port/errors.js';
import { NO_MEMORY, type AcquireOutcome, type AcquireRequest, type Grant, type HeldLease, type ReleaseRequest, type RenewOutcome, type RenewRequest } from '../../core/port/lock-store.js';
import type { Clock } from '../../core/port/clock.js';
import type { FenceFloors } from '../wire/fence-floors.js';
import { marginOf } from '../wire/server-clock.js';
import { textOfVote, wordOf, type GrantedVote, type NodeVote, type VoteTerms, type Word } from './node-store.js';
import { agree, answersOf, hearing, noQuorum, poll, type Replies, type Reply } from './poll.js';
import { quorumEnd, verdict } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';
import { patienceMs, retryPause } from './waiters.js';

export interface QuorumContext {
  readonly nodes: readonly RedlockNode[];
  /** How many of the nodes must agree. */
  readonly quorum: number;
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly floors: FenceFloors;
  /** Removes the marks of this process from a node, or gives it the one that is written in `mark`. */
  mark(node: RedlockNode, key: string, mark?: string): void;
  /** Releases an id on a node until it has answered a release of later than `lateUntil`, or until the lease has ended by itself. */
  withdraw(node: RedlockNode, release: ReleaseRequest, until: number, lateUntil: number): void;
}

/** What is known of a ballot on a node that has it: until when, in local instants, and which memory of the node knows it. */
interface Kept {
  readonly end: number;
  readonly memory: string | undefined;
}

/** In ms: a garbage collection in this process, or a busy moment of a server, must not look like a dead node. */
const SHORTEST_TIMEOUT_MS = 50;
const LONGEST_VOTE_MS = 500;

export class Ballot implements HeldLease {
  state: 'open' | 'held' | 'over' = 'open';
  /** The local instant until which a quorum is known to have the ballot. */
  trustedUntil = -Infinity;
  /** The local instant at which the ballot has ended by itself on every node. */
  endsAt = 0;
  mode: HeldLease['mode'];
  readonly permits = undefined;
  /** A node that is given the lease again does not get its minHoldMs: the others, a quorum, keep the time. */
  readonly minHoldUntil = -Infinity;
  /** Where it does not stand any more it was looked for before: no memory has this name. */
  readonly memory = NO_MEMORY;
  /** The first fence of the grant; 0 until a quorum has voted. */
  firstFence = 0;
  fences: number;
  /** The nodes that may have it: those that were asked and did not say that they do not. */
  readonly asked = new Set<RedlockNode>();
  /** Nodes that were asked for it and did not answer, each with the instant until which the request may still act. */
  private readonly mute = new Map<RedlockNode, number>();
  private readonly kept = new Map<RedlockNode, Kept>();
  private readonly votes = new Map<RedlockNode, GrantedVote>();
  /** Nodes that refused it, for others come first there. */
  private readonly marked = new Set<RedlockNode>();
  /** Nodes which said that a forced release took the lock away there. */
  readonly takenOn = new Set<RedlockNode>();
  private overAt = Infinity;
  private isWanted = false;
  /** Whether others come first, and its process goes on waiting. */
  private goesOn = false;
  /** Whether nobody has worked under this ballot, so that no minHoldMs is owed where it is taken back. */
  private abandoned = true;
  private readonly terms: VoteTerms;

  constructor(
    private readonly context: QuorumContext,
    readonly request: AcquireRequest,
    /** The ballot's id on the nodes. */
    readonly id: string,
    /** For how long its process has waited, in ms; -1 when nobody in it waits. */
    private readonly waitedMs: number,
    /** How long the nodes took to answer the last ballot, in ms. */
    tookMs: number,
  ) {
    const { mode, fences, owner, label, graceMs = 0 } = request;
    const [leaseMs, minHoldMs] = [Math.floor(request.leaseMs), Math.floor(request.minHoldMs)];
    const timeoutMs = Math.min(context.commandTimeoutMs, LONGEST_VOTE_MS, Math.max(SHORTEST_TIMEOUT_MS, leaseMs / 10));
    const plain = fences === 1 && minHoldMs === 0 && graceMs === 0;
    this.mode = mode;
    this.fences = fences;
    this.terms = { id, mode, leaseMs, plain, fences, minHoldMs, graceMs, owner, label, waitedMs: Math.floor(waitedMs), patienceMs: patienceMs(tookMs), timeoutMs };
  }

  get key(): string {
    return this.request.key;
  }

  get owner(): string | undefined {
    return this.terms.owner;
  }

  get label(): string | undefined {
    return this.terms.label;
  }

  get isHeld(): boolean {
    return this.state !== 'over';
  }

  get isReleased(): boolean {
    return this.state === 'over';
  }

  /** How long the nodes took to answer, in ms. */
  tookMs = 0;

  /** Asks all nodes. Rejects with LockStoreError when no quorum answered. Unless it is granted, the ballot is over then. */
  async cast(): Promise<AcquireOutcome> {
    const { nodes, quorum, clock, commandTimeoutMs, floors } = this.context;
    const { key, terms } = this;
    const { leaseMs, minHoldMs, graceMs } = terms;
    const now = clock.now();
    const limit = Math.min(this.request.notAfter, now + Math.max(leaseMs, commandTimeoutMs));
    const spot = nodes[0]!.store.spotOf(key);
    const proposal = Math.max(floors.of(spot.group) + 1, Math.floor(clock.wallNow()) * 1_000);
    this.lasts(limit - now + Math.max(leaseMs, minHoldMs) + graceMs);
    // A silent node is not asked while the others are a quorum, so that nobody waits for it.
    const isSpared = nodes.filter((node) => node.isListening).length >= quorum;
    let replies: Replies<RedlockNode, NodeVote> = new Map();
    const result = await poll<RedlockNode, NodeVote, Word | 'split'>(
      nodes,
      (node, hear) => {
        if (!node.isUsable || (isSpared && node.store.isSilent)) return hear({ kind: 'failure', error: node.refusal(key, node.isUsable ? 'silent' : undefined) });
        this.asked.add(node);
        node.store.vote(terms, spot, proposal, limit, (reply) => {
          this.heard(node, reply, limit, spot.group);
          hear(reply);
        });
      },
      (all) => {
        replies = all;
        return all.size < quorum ? undefined : verdict(nodes.map((node) => wordOf(all.get(node))));
      },
    );
    replies = new Map(replies);
    this.tookMs = clock.now() - now;
    try {
      if (this.state === 'over') return this.busy([]);
      if (result !== 'granted' && typeof result !== 'number') return this.refused(replies, result);
      const ends = this.agreeOnFence(result);
      return this.granted(ends instanceof Promise ? await ends : ends);
    } finally {
      // A release may have ended the ballot meanwhile. Otherwise only a granted ballot goes on.
      if (this.state === 'open') this.takeBack();
    }
  }

  /** The grant, as its holder may trust it now. */
  grant(): Grant {
    const { firstFence: fence, fences, mode, trustedUntil, isWanted: contended } = this;
    return { fence, fences, mode, trustedUntil, contended };
  }

  /** What the store of a node is asked for a renewal. With `held` a node that does not have the lease is given it. */
  renewal(leaseMs: number, held?: HeldLease): RenewRequest {
    return { key: this.key, id: this.id, leaseMs, graceMs: this.terms.graceMs, minReplicas: 0, held };
  }

  /** Notes a node that keeps a mark of this process. Once a quorum of others has granted the lock, that would be a wait that has ended. */
  private refusedBy(node: RedlockNode): void {
    if (this.state === 'held') this.context.mark(node, this.key);
    else this.marked.add(node);
  }

  /** Notes that the ballot was, or may have been, prolonged just now by `forMs`. */
  lasts(forMs: number): void {
    this.endsAt = Math.max(this.endsAt, this.context.clock.now() + forMs + marginOf(forMs));
  }

  /** Notes that the node has the ballot. */
  keptBy(node: RedlockNode, end: number, memory: string | undefined): void {
    this.asked.add(node);
    this.kept.set(node, { end, memory });
  }

  /** Notes what came of giving the ballot to a node. Without an answer the request may still act there until the end of the trust. */
  given(node: RedlockNode, outcome: RenewOutcome): void {
    if (outcome.kind === 'renewed') this.keptBy(node, outcome.trustedUntil, outcome.memory);
    else if (outcome.kind === 'lost') this.asked.delete(node);
    else this.mute.set(node, this.trustedUntil);
    if (this.state === 'over') this.withdraw(node);
  }

  /**
   * Whether a node that says at `now` that it does not have the ballot has let it be taken away: it had it, has forgotten nothing, and
   * would keep it until later.
   */
  wasTakenFrom(node: RedlockNode, now: number): boolean {
    const kept = this.kept.get(node);
    return kept !== undefined && now < kept.end && kept.memory === node.store.memoryOf(this.key);
  }

  /** The same, or it cannot be excluded: the node may have granted it, but has not answered since. */
  mayBeTakenFrom(node: RedlockNode, now: number): boolean {
    return this.wasTakenFrom(node, now) || (this.asked.has(node) && !this.kept.has(node) && now < this.endsAt);
  }

  /** Ends the ballot and releases it on the nodes, also in the background on those that do not answer. */
  release({ abandoned = false, askedAt }: Partial<ReleaseRequest>): Promise<'released' | 'lost'> {
    const leaving = this.end(abandoned, askedAt);
    return agree<RedlockNode, 'released' | 'lost'>('a release', this.key, this.context.nodes, (node, hear) => {
      if (!this.asked.has(node)) return hear({ kind: 'answer', answer: 'lost' });
      hearing(node.store.release(leaving), (reply) => {
        if (reply.kind === 'failure' || this.mute.has(node)) this.withdraw(node);
        hear(reply);
      });
    });
  }

  /** Ends the ballot and takes it back from all nodes on which it may stand. */
  takeBack(): void {
    this.end(false);
    const { terms: { mode, patienceMs }, waitedMs, tookMs } = this;
    for (const node of this.asked) {
      // Where it was granted there is no mark of it, and two who split the votes would be called by less than a quorum for ever.
      if (this.goesOn) this.context.mark(node, this.key, `${mode[0]},${Math.floor(waitedMs + tookMs)},${patienceMs}`);
      this.withdraw(node);
    }
  }

  withdraw(node: RedlockNode): void {
    const { key, id, abandoned, endsAt, mute } = this;
    this.context.withdraw(node, { key, id, abandoned }, endsAt, mute.get(node) ?? -Infinity);
  }

  private end(abandoned: boolean, askedAt = this.context.clock.now()): ReleaseRequest {
    const { key, id, trustedUntil } = this;
    this.state = 'over';
    this.overAt = askedAt;
    this.abandoned ||= abandoned;
    return { key, id, askedAt, trustedUntil, abandoned: this.abandoned };
  }

  private heard(node: RedlockNode, reply: Reply<NodeVote>, limit: number, group: number): void {
    if (reply.kind === 'failure') {
      this.mute.set(node, limit);
      if (this.state === 'over') this.withdraw(node);
      return;
    }
    const vote = reply.answer;
    if (vote.kind === 'closed') void node.look();
    if (vote.kind !== 'granted') {
      this.asked.delete(node);
      if (vote.kind === 'busy' && this.waitedMs >= 0) this.refusedBy(node);
      return;
    }
    this.context.floors.saw(group, vote.fence + this.fences - 1);
    this.isWanted ||= vote.contended;
    this.keptBy(node, vote.end, vote.memory);
    // A vote that came after the release: a script that the server did not know is sent again, behind it.
    if (this.state === 'over') return vote.sentAt >= this.overAt || this.mute.has(node) ? this.withdraw(node) : undefined;
    this.mute.delete(node);
    if (this.firstFence === 0) this.votes.set(node, vote);
    else if (vote.fence !== this.firstFence) void this.raiseFence(node);
  }

  /**
   * Agrees on one fence: that of the owner's hold that is shared, or the greatest of the votes. Where a quorum answered the same, that is
   * the fence. Otherwise it is written back until a quorum has it, before anybody uses it: every later quorum then has a node that knows
   * it. Returns when the votes for it end.
   */
  private agreeOnFence(result: 'granted' | number): readonly number[] | Promise<readonly number[]> {
    const { nodes, quorum } = this.context;
    const votes = [...this.votes].filter(([, vote]) => result === 'granted' || (vote.shared && vote.fence === result));
    if (result !== 'granted') {
      this.mode = votes[0]![1].mode;
      this.fences = 1;
    }
    this.firstFence = Math.max(...votes.map(([, { fence }]) => fence));
    // The limit of what nodes are told of it until a quorum is known to have it.
    this.trustedUntil = Math.max(...votes.map(([, { end }]) => end));
    const ends = votes.filter(([, { fence }]) => fence === this.firstFence).map(([, { end }]) => end);
    const others = [...this.votes].filter(([, { fence }]) => fence !== this.firstFence);
    if (ends.length >= quorum) {
      // Nobody waits for the answers: the fence of such a node matters only to a later share of the hold, which compares it there.
      for (const [node] of others) void this.raiseFence(node);
      return ends;
    }
    return poll<RedlockNode, boolean, readonly number[]>(
      others.map(([node]) => node),
      (node, hear) => hearing(this.raiseFence(node), hear),
      (replies) => {
        const all = [...ends, ...answersOf(replies).flatMap(([node, stands]) => (stands ? this.votes.get(node)!.end : []))];
        if (all.length >= quorum) return all;
        if (replies.size < others.length) return undefined;
        throw noQuorum('its agreement on a fence', this.key, nodes, replies, (stands) => (stands ? 'agreed' : 'lost the vote'));
      },
    );
  }

  /** Gives the fence to a node that voted with another one. False when the vote does not stand there any more. Never rejects. */
  private async raiseFence(node: RedlockNode): Promise<boolean> {
    const [outcome] = await node.store.renew([this.renewal(this.terms.leaseMs, this)]);
    this.given(node, outcome!);
    return outcome!.kind === 'renewed';
  }

  private granted(ends: readonly number[]): AcquireOutcome {
    if (this.state === 'over') return this.busy([]);
    const { quorum, clock } = this.context;
    const trustedUntil = quorumEnd(ends, quorum);
    if (clock.now() >= trustedUntil) {
      const message = `Lock '${this.key}': a quorum granted it, but its ${this.terms.leaseMs} ms were over before all had answered. It is safe to try again.`;
      throw new LockStoreError(message, { key: this.key });
    }
    this.state = 'held';
    this.abandoned = false;
    for (const node of this.marked) this.refusedBy(node);
    this.trustedUntil = trustedUntil;
    return { kind: 'granted', grant: this.grant() };
  }

  private refused(replies: Replies<RedlockNode, NodeVote>, result: Exclude<Word, 'granted' | number> | 'split'): AcquireOutcome {
    if (result === 'upgrade' || result === 'full') return { kind: result };
    const { nodes, quorum } = this.context;
    const votes = answersOf(replies).map(([, vote]) => vote);
    const against = votes.filter(isAgainst);
    // Without answers from a quorum nobody knows whether the lock is busy.
    const isUnreachable = replies.size - votes.length > nodes.length - quorum;
    if (isUnreachable || against.length === 0) throw noQuorum('a grant', this.key, nodes, replies, (vote, node) => (vote.kind === 'closed' && node.closedText) || textOfVote(vote));
    return this.busy(against);
  }

  private busy(votes: readonly NodeVote[]): AcquireOutcome {
    this.goesOn = this.state === 'open' && this.waitedMs >= 0;
    const leftMs = Math.max(0, ...votes.map((vote) => (vote.kind === 'busy' && vote.leftMs >= 0 ? vote.leftMs : Infinity)));
    return { kind: 'busy', retryInMs: retryPause({ waitedMs: Math.max(0, this.waitedMs), tookMs: this.tookMs, leftMs }, Math.random()) };
  }
}

/** Whether the answer says that others have the lock, or that its owner has it already. */
function isAgainst(vote: NodeVote): boolean {
  return vote.kind === 'busy' || vote.kind === 'upgrade' || vote.kind === 'full' || (vote.kind === 'granted' && vote.shared);
}
