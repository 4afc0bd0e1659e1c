/**
 * One attempt to get one lock from the nodes, and the lease if the attempt succeeds. Every attempt has an id of its own on the
 * nodes, so that late requests of an old attempt, which take the lock or take it back, can never touch a new attempt.
 *
 *     open ──(a quorum granted, one fence, time left)──▶ held ──▶ over   released or lost
 *       └──(refused, failed, cancelled)────────────────────────▶ over   and taken back wherever it may stand
 */
import { LockStoreError } from '../../core/port/errors.js';
import { NO_MEMORY, type AcquireOutcome, type AcquireRequest, type Grant, type HeldLease, type ReleaseRequest, type RenewRequest } from '../../core/port/lock-store.js';
import type { Clock } from '../../core/port/clock.js';
import type { FenceFloors } from '../wire/fence-floors.js';
import type { Spot } from '../wire/redis-keys.js';
import { marginOf } from '../wire/server-clock.js';
import { agree, answersOf, noQuorum, poll, type Replies } from './poll.js';
import { quorumEnd, verdict } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';
import { Standing, textOfVote, wordOf, type NodeVote, type VoteTerms, type Word } from './standing.js';
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
  /** The ballot on each node, in the order of the nodes. */
  readonly standings: readonly Standing[];
  readonly spot: Spot;
  readonly terms: VoteTerms;
  readonly timeoutMs: number;
  /** The local instant after which no node must vote any more. */
  limit = 0;
  /** How long the nodes took to answer, in ms. */
  tookMs = 0;
  /** Since when it is over. */
  overAt = Infinity;
  /** Whether others wait for the lock. */
  isWanted = false;
  /** Where others come first and its process goes on waiting: the mark that the process has on nodes that had granted the lock. */
  markToKeep: string | undefined;
  /** Whether nobody has worked under this ballot, so that no minHoldMs is owed where it is taken back. */
  private abandoned = true;

  constructor(
    readonly context: QuorumContext,
    readonly request: AcquireRequest,
    /** The ballot's id on the nodes. */
    readonly id: string,
    /** For how long its process has waited, in ms; -1 when nobody in it waits. */
    readonly waitedMs: number,
    /** How long the nodes took to answer the last ballot, in ms. */
    tookMs: number,
  ) {
    const { key, mode, fences, owner, label, graceMs = 0 } = request;
    const { nodes, commandTimeoutMs } = context;
    const [leaseMs, minHoldMs] = [Math.floor(request.leaseMs), Math.floor(request.minHoldMs)];
    const plain = fences === 1 && minHoldMs === 0 && graceMs === 0;
    this.mode = mode;
    this.fences = fences;
    this.timeoutMs = Math.min(commandTimeoutMs, LONGEST_VOTE_MS, Math.max(SHORTEST_TIMEOUT_MS, leaseMs / 10));
    this.spot = nodes[0]!.store.spotOf(key);
    this.terms = {
      id, mode, leaseMs, plain, fences, minHoldMs, graceMs, owner, label, waitedMs: Math.floor(waitedMs), patienceMs: patienceMs(tookMs),
      proposal: 0, notAfter: 0, known: '',
    };
    this.standings = nodes.map((node) => new Standing(this, node));
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

  /** How many nodes said that a forced release took the lock away there. */
  get takenOn(): number {
    return this.standings.filter(({ isTaken }) => isTaken).length;
  }

  /** Asks all nodes. Rejects with LockStoreError when no quorum answered. Unless it is granted, the ballot is over then. */
  async cast(): Promise<AcquireOutcome> {
    const { context: { nodes, quorum, clock, commandTimeoutMs, floors }, terms, standings, spot, request } = this;
    const { leaseMs, minHoldMs, graceMs } = terms;
    const now = clock.now();
    this.limit = Math.min(request.notAfter, now + Math.max(leaseMs, commandTimeoutMs));
    terms.proposal = Math.max(floors.of(spot.group) + 1, Math.floor(clock.wallNow()) * 1_000);
    this.lasts(this.limit - now + Math.max(leaseMs, minHoldMs) + graceMs);
    // A silent node is not asked while the others are a quorum, so that nobody waits for it.
    const isSpared = nodes.filter((node) => node.isListening).length >= quorum;
    let replies: Replies<NodeVote> = [];
    const result = await poll<Standing, NodeVote, Word | 'split'>(
      standings,
      (standing, hear) => {
        const { node } = standing;
        if (node.isUsable && !(isSpared && node.store.isSilent)) standing.ask(now, hear);
        else hear(node.refusal(this.key, node.isUsable ? 'silent' : undefined));
      },
      (all, count) => {
        replies = all;
        return count < quorum ? undefined : verdict(all.map(wordOf));
      },
    );
    this.tookMs = clock.now() - now;
    try {
      if (this.state === 'over') return this.busy([]);
      if (result !== 'granted' && typeof result !== 'number') return this.refused(replies, result);
      const agreed = this.agreeOnFence(result);
      return this.granted(agreed instanceof Promise ? await agreed : agreed);
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

  /** Notes that the ballot was, or may have been, prolonged just now by `forMs`. */
  lasts(forMs: number): void {
    this.endsAt = Math.max(this.endsAt, this.context.clock.now() + forMs + marginOf(forMs));
  }

  /** Ends the ballot and releases it on the nodes, also in the background on those that do not answer. */
  release({ abandoned = false, askedAt }: Partial<ReleaseRequest>): Promise<'released' | 'lost'> {
    const leaving = this.end(abandoned, askedAt);
    return agree<RedlockNode, 'released' | 'lost'>('a release', this.key, this.context.nodes, (_, hear, at) => this.standings[at]!.leave(leaving, hear));
  }

  /** Ends the ballot and takes it back from all nodes on which it may stand. */
  takeBack(): void {
    this.end(false);
    for (const standing of this.standings) standing.takeBack();
  }

  /** What a node is asked to take it back. */
  leaving(): ReleaseRequest {
    const { key, id, abandoned } = this;
    return { key, id, abandoned };
  }

  private end(abandoned: boolean, askedAt = this.context.clock.now()): ReleaseRequest {
    this.state = 'over';
    this.overAt = askedAt;
    this.abandoned ||= abandoned;
    const { key, id, trustedUntil } = this;
    return { key, id, askedAt, trustedUntil, abandoned: this.abandoned };
  }

  /**
   * Agrees on one fence: that of the owner's hold that is shared, or the greatest of the votes. Where a quorum answered the same, that is
   * the fence. Otherwise it is written back until a quorum has it, before anybody uses it: every later quorum then has a node that knows
   * it. Returns where it stands.
   */
  private agreeOnFence(result: 'granted' | number): readonly Standing[] | Promise<readonly Standing[]> {
    const { nodes, quorum } = this.context;
    const voters = this.standings.filter(({ vote }) => vote !== undefined);
    const counted = voters.filter(({ vote }) => result === 'granted' || (vote!.shared && vote!.fence === result));
    if (result !== 'granted') {
      this.mode = counted[0]!.vote!.mode;
      this.fences = 1;
    }
    this.firstFence = Math.max(...counted.map(({ vote }) => vote!.fence));
    const agreed = counted.filter(({ vote }) => vote!.fence === this.firstFence);
    // The limit of what nodes are told of it until a quorum is known to have it.
    this.trustedUntil = Math.max(...counted.map(({ end }) => end!));
    const others = voters.filter(({ vote }) => vote!.fence !== this.firstFence);
    if (agreed.length >= quorum) {
      // Nobody waits for the answers: the fence of such a node matters only to a later share of the hold, which compares it there.
      for (const standing of others) void standing.raiseFence();
      return agreed;
    }
    return poll<Standing, boolean, readonly Standing[]>(
      others,
      (standing, hear) => void standing.raiseFence().then(hear),
      (replies, count) => {
        const all = [...agreed, ...answersOf(replies).flatMap(([stands, at]) => (stands ? others[at]! : []))];
        if (all.length >= quorum) return all;
        if (count < others.length) return undefined;
        const ofAll = nodes.map((node) => replies[others.findIndex((other) => other.node === node)]);
        throw noQuorum('its agreement on a fence', this.key, nodes, ofAll, (stands) => (stands ? 'agreed' : 'lost the vote'));
      },
    );
  }

  private granted(agreed: readonly Standing[]): AcquireOutcome {
    if (this.state === 'over') return this.busy([]);
    const { quorum, clock } = this.context;
    const trustedUntil = quorumEnd(agreed.map(({ end }) => end!), quorum);
    if (clock.now() >= trustedUntil) {
      const message = `Lock '${this.key}': a quorum granted it, but its ${this.terms.leaseMs} ms were over before all had answered. It is safe to try again.`;
      throw new LockStoreError(message, { key: this.key });
    }
    this.state = 'held';
    this.abandoned = false;
    for (const standing of this.standings) if (standing.isMarked) standing.unmark();
    this.trustedUntil = trustedUntil;
    return { kind: 'granted', grant: this.grant() };
  }

  private refused(replies: Replies<NodeVote>, result: Exclude<Word, 'granted' | number> | 'split'): AcquireOutcome {
    if (result === 'upgrade' || result === 'full') return { kind: result };
    const { nodes, quorum } = this.context;
    const votes = answersOf(replies).map(([vote]) => vote);
    const against = votes.filter(isAgainst);
    // Without answers from a quorum nobody knows whether the lock is busy.
    const failed = replies.filter((reply) => reply instanceof LockStoreError).length;
    if (failed > nodes.length - quorum || against.length === 0) {
      throw noQuorum('a grant', this.key, nodes, replies, (vote, node) => (vote.kind === 'closed' && node.closedText) || textOfVote(vote));
    }
    return this.busy(against);
  }

  private busy(votes: readonly NodeVote[]): AcquireOutcome {
    const { state, waitedMs, tookMs, terms: { mode, patienceMs } } = this;
    if (state === 'open' && waitedMs >= 0) this.markToKeep = `${mode[0]},${Math.floor(waitedMs + tookMs)},${patienceMs}`;
    const leftMs = Math.max(0, ...votes.map((vote) => (vote.kind === 'busy' && vote.leftMs >= 0 ? vote.leftMs : Infinity)));
    return { kind: 'busy', retryInMs: retryPause({ waitedMs: Math.max(0, waitedMs), tookMs, leftMs }, Math.random()) };
  }
}

/** Whether the answer says that others have the lock, or that its owner has it already. */
function isAgainst(vote: NodeVote): boolean {
  return vote.kind === 'busy' || vote.kind === 'upgrade' || vote.kind === 'full' || (vote.kind === 'granted' && vote.shared);
}
