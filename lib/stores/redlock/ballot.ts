/**
 * One attempt to get one lock from the nodes, and the lease if the attempt succeeds. Every attempt has an id of its own on the
 * nodes, so that late requests of an old attempt, which take the lock or take it back, can never touch a new attempt.
 *
 *     open ──(a quorum granted, one fence, time left)──▶ held ──▶ over   released or lost
 *       └──(refused, failed, cancelled)────────────────────────▶ over   and taken back wherever it may stand
 */
import { LockStoreError } from '../../core/port/errors.js';
import { NO_MEMORY, type AcquireOutcome, type AcquireRequest, type Grant, type Hear, type ReleaseRequest, type RenewOutcome, type Reply } from '../../core/port/lock-store.js';
import type { LockMode } from '../../core/port/lock-options.js';
import { BundledRelease } from '../redis/releases.js';
import { ScriptRequest } from '../wire/bundles.js';
import { listOf } from '../wire/lock-reply.js';
import { readVote, vote, type VoteArgs, type VoteReply, voteText } from '../wire/lua.generated.js';
import { USUAL_LEASE_MS, type Spot } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';
import { LONG_AGO, marginOf, trustOf } from '../wire/server-clock.js';
import { unexpected } from '../wire/store-failure.js';
import { agree, answersOf, asking, noQuorum, poll, quorumEnd, reasonOf, verdict, type Replies, type Vote } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';
import type { RedlockStore } from './redlock-store.js';
import { patienceMs, retryPause } from './pauses.js';

/** In ms: a garbage collection in this process, or a busy moment of a server, must not look like a dead node. */
const SHORTEST_TIMEOUT_MS = 50;
const LONGEST_VOTE_MS = 500;

export class Ballot {
  state: 'open' | 'held' | 'over' = 'open';
  /** The local instant until which a quorum is known to have the ballot. */
  trustedUntil = -Infinity;
  /** The local instant at which the ballot has ended by itself on every node. */
  endsAt = 0;
  mode: LockMode;
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
  /** What comes of it, once it was cast: a request that is made twice is one ballot. */
  outcome: Promise<AcquireOutcome> | undefined;
  /** How long the nodes took to answer, in ms. */
  tookMs = 0;
  /** Once it is over: what its releases say. */
  leaving: Leaving | undefined;
  /** Whether others wait for the lock. */
  isWanted = false;
  /** Where others come first and the request goes on waiting: the mark that it has on nodes that had granted the lock. */
  markToKeep: string | undefined;

  constructor(
    readonly redlock: RedlockStore,
    readonly request: AcquireRequest,
    /** The ballot's id on the nodes. */
    readonly id: string,
    /** For how long the request has waited, in ms; -1 when it does not wait. */
    readonly waitedMs: number,
    /** How long the nodes took to answer the last ballot, in ms. */
    tookMs: number,
  ) {
    const { key, mode, fences, owner, label, graceMs = 0 } = request;
    const { nodes, options: { commandTimeoutMs } } = redlock;
    const [leaseMs, minHoldMs] = [Math.floor(request.leaseMs), Math.floor(request.minHoldMs)];
    const plain = fences === 1 && minHoldMs === 0 && graceMs === 0 && leaseMs <= USUAL_LEASE_MS;
    [this.mode, this.fences] = [mode, fences];
    this.timeoutMs = Math.min(commandTimeoutMs, LONGEST_VOTE_MS, Math.max(SHORTEST_TIMEOUT_MS, leaseMs / 10));
    this.spot = nodes[0]!.store.parts.keys.spotOf(key);
    this.terms = {
      id, mode, leaseMs, plain, fences, minHoldMs, graceMs, owner, label, waitedMs: Math.floor(waitedMs), patienceMs: patienceMs(tookMs),
      proposal: 0, notAfter: 0, known: '',
    };
    this.standings = nodes.map((node) => new Standing(this, node));
  }

  get key(): string {
    return this.request.key;
  }

  /** How many nodes said that a forced release took the lock away there. */
  get takenOn(): number {
    return this.standings.filter(({ isTaken }) => isTaken).length;
  }

  /** Asks all nodes. Rejects with LockStoreError when no quorum answered. A ballot that is not granted has to be taken back. */
  cast(): Promise<AcquireOutcome> {
    const { redlock: { nodes, quorum, clock, options: { commandTimeoutMs }, floors }, terms, standings, spot, request } = this;
    const { leaseMs, minHoldMs, graceMs } = terms;
    const now = clock.now();
    this.limit = Math.min(request.notAfter, now + Math.max(leaseMs, commandTimeoutMs));
    terms.proposal = Math.max(floors.of(spot.group) + 1, Math.floor(clock.wallNow()) * 1_000);
    this.lasts(this.limit - now + Math.max(leaseMs, minHoldMs) + graceMs);
    // A silent node is not asked while the others are a quorum, so that nobody waits for it.
    const isSpared = nodes.filter((node) => node.isListening).length >= quorum;
    this.outcome = poll<Standing, VoteReply, AcquireOutcome>(
      standings,
      (standing, hear) => {
        const { node } = standing;
        if (node.isUsable && !(isSpared && node.isSilent)) standing.ask(now, hear);
        else hear(node.refusal(this.key, node.isUsable ? 'silent' : undefined));
      },
      (replies, count) => {
        const result = count < quorum ? undefined : verdict(replies.map(wordOf));
        if (result === undefined) return undefined;
        this.tookMs = clock.now() - now;
        return this.decided(replies, result);
      },
    );
    return this.outcome;
  }

  /** The grant, as its holder may trust it now. */
  grant(): Grant {
    const { firstFence: fence, fences, mode, trustedUntil, isWanted: contended } = this;
    return { fence, fences, mode, trustedUntil, contended };
  }

  /** Notes that the ballot was, or may have been, prolonged just now by `forMs`. */
  lasts(forMs: number): void {
    this.endsAt = Math.max(this.endsAt, this.redlock.clock.now() + forMs + marginOf(forMs));
  }

  /** Ends the ballot and releases it on the nodes, also in the background on those that do not answer. `mark`: the mark that the nodes note for the request that replaces it. */
  release({ abandoned, askedAt }: Partial<ReleaseRequest>, mark?: string): Promise<'released' | 'lost'> {
    this.end(abandoned, askedAt, mark);
    return agree<RedlockNode, 'released' | 'lost'>('a release', this.key, this.redlock.nodes, (_, hear, at) => this.standings[at]!.leave(hear));
  }

  /** Ends the ballot and takes it back from all nodes on which it may stand. */
  takeBack(): void {
    this.end();
    for (const standing of this.standings) standing.takeBack();
  }

  /** A ballot under which nobody has worked owes no minHoldMs. */
  private end(abandoned = false, askedAt = this.redlock.clock.now(), mark = this.markToKeep): void {
    const { key, id, trustedUntil, state } = this;
    this.leaving = { key, id, askedAt, trustedUntil, abandoned: abandoned || state !== 'held', mark };
    this.state = 'over';
  }

  /**
   * What comes of the ballot now that the missing votes cannot change it. A grant has one fence: that of the owner's hold that is shared, or
   * the greatest of the votes. It is written to the nodes that answered another one, and nobody uses it before a quorum has it: every later
   * quorum then has a node that knows it.
   */
  private decided(replies: Replies<VoteReply>, result: Word | 'split'): AcquireOutcome | Promise<AcquireOutcome> {
    if (this.state === 'over') return this.busy([]);
    if (result !== 'granted' && typeof result !== 'number') return this.refused(replies, result);
    const voters = this.standings.filter(({ vote }) => vote !== undefined);
    const counted = voters.filter(({ vote }) => result === 'granted' || (vote!.shared && vote!.fence === result));
    if (result !== 'granted') {
      this.mode = counted[0]!.vote!.mode;
      this.fences = 1;
    }
    this.firstFence = Math.max(...counted.map(({ vote }) => vote!.fence));
    // The limit of what nodes are told of it until a quorum is known to have it.
    this.trustedUntil = Math.max(...counted.map(({ end }) => end!));
    const agreed = counted.filter(({ vote }) => vote!.fence === this.firstFence);
    const others = voters.filter(({ vote }) => vote!.fence !== this.firstFence);
    const raised = others.map((standing) => standing.give(this.terms.leaseMs));
    // Then the fence of another node matters only to a later share of the hold, which compares it there.
    if (agreed.length >= this.redlock.quorum) return this.granted(agreed);
    return Promise.all(raised).then((outcomes) => this.granted([...agreed, ...others.filter((_, at) => outcomes[at]!.kind === 'renewed')]));
  }

  private granted(agreed: readonly Standing[]): AcquireOutcome {
    if (this.state === 'over') return this.busy([]);
    const { nodes, quorum, clock } = this.redlock;
    if (agreed.length < quorum) {
      const words = this.standings.map((standing) => (agreed.includes(standing) ? 'agreed' : standing.vote && 'lost the vote'));
      throw noQuorum('its agreement on a fence', this.key, nodes, words, (word) => word);
    }
    const trustedUntil = quorumEnd(agreed.map(({ end }) => end!), quorum);
    if (clock.now() >= trustedUntil) {
      const message = `Lock '${this.key}': a quorum granted it, but its ${this.terms.leaseMs} ms were over before all had answered. It is safe to try again.`;
      throw new LockStoreError(message, { key: this.key });
    }
    this.state = 'held';
    for (const standing of this.standings) if (standing.isMarked) standing.unmark();
    this.trustedUntil = trustedUntil;
    return { kind: 'granted', grant: this.grant() };
  }

  private refused(replies: Replies<VoteReply>, result: Exclude<Word, 'granted' | number> | 'split'): AcquireOutcome {
    if (result === 'upgrade' || result === 'full') return { kind: result };
    const { nodes, quorum } = this.redlock;
    const votes = answersOf(replies);
    const against = votes.filter(isAgainst);
    // Without answers from a quorum nobody knows whether the lock is busy.
    const failed = replies.filter((reply) => reply instanceof LockStoreError).length;
    if (failed > nodes.length - quorum || against.length === 0) {
      throw noQuorum('a grant', this.key, nodes, replies, textOfVote);
    }
    return this.busy(against);
  }

  private busy(votes: readonly VoteReply[]): AcquireOutcome {
    const { state, request, waitedMs, tookMs, terms: { patienceMs } } = this;
    if (state === 'open' && waitedMs >= 0) this.markToKeep = markOf(request, waitedMs + tookMs, patienceMs);
    const leftMs = Math.max(0, ...votes.map((vote) => (vote.kind === 'busy' && vote.leftMs >= 0 ? vote.leftMs : Infinity)));
    return { kind: 'busy', retryInMs: retryPause({ waitedMs: Math.max(0, waitedMs), tookMs, leftMs }, Math.random()) };
  }
}

/** A release, and the mark that it leaves for the request that goes on waiting. */
type Leaving = ReleaseRequest & { readonly askedAt: number; readonly mark: string | undefined };

/** What all nodes are asked for; the last two are each node's own, and are written when its request is. */
type VoteTerms = { -readonly [Name in keyof VoteArgs]: VoteArgs[Name] };

type Granted = Extract<VoteReply, { kind: 'granted' }>;

/** A ballot on one node: the request for the node's vote, which is told also when it comes after a failure, and what is known of the ballot there. */
class Standing extends ScriptRequest<VoteReply> {
  /** Whether the node may have the ballot: it was asked for it, has not said that it does not have it, and no release was sent behind. */
  mayHave = false;
  /** Where the node did not answer: the local instant until which what it was asked may still act. */
  lateUntil: number | undefined;
  /** Where the node has said that it has the ballot: until when, in local time, and which memory of the node knows it. */
  end: number | undefined;
  private memory: string | undefined;
  /** Its vote, if that came before a quorum had voted. */
  vote: Granted | undefined;
  /** Whether the node refused it, for others come first there. */
  isMarked = false;
  /** Whether a forced release took the lock away there: the node said so, or would have the ballot still. */
  isTaken = false;
  declare askedAt: number;
  /** The request for the vote: until when the node may act on it by its own time, and what was known of its memory. */
  private notAfter = 0;
  private known = '';
  private connectionNumber = 0;

  constructor(
    private readonly ballot: Ballot,
    readonly node: RedlockNode,
  ) {
    super(vote, ballot.spot, undefined);
  }

  /** Asks for the node's vote. */
  ask(now: number, hear = this.hear): void {
    const { bundles, trust } = this.node.store.parts;
    this.mayHave = true;
    this.askedAt = now;
    this.timeoutMs = this.ballot.timeoutMs;
    this.hear = hear;
    this.notAfter = trust.clock.before(0, this.ballot.limit, now);
    bundles.add(this);
  }

  text(): string {
    const { terms } = this.ballot;
    const { memories } = this.node.store.parts;
    this.known = terms.known = memories.of(this.spot.group);
    this.connectionNumber = memories.connection;
    terms.notAfter = this.notAfter || LONG_AGO;
    return voteText(terms);
  }

  answered(reply: ScriptReply): void {
    const { ballot, node, known, sentAt } = this;
    const { trust, clock } = node.store.parts;
    const told = typeof reply === 'number' ? this.grantedAsAsked(reply) : readVote(listOf(reply));
    if (typeof reply !== 'number' || !trust.clock.isFresh(0, sentAt)) trust.clock.observe(0, { sentAt, receivedAt: clock.now(), serverNow: told.now });
    if (told.kind !== 'granted') return this.refused(told);
    const { fence, leftMs, contended, memory = known } = told;
    const { group } = ballot.spot;
    if (memory !== known) node.store.recovery.compare(group, memory, this.connectionNumber);
    ballot.redlock.floors.saw(group, fence + ballot.fences - 1);
    ballot.isWanted ||= contended;
    this.end = trustOf(leftMs, sentAt);
    this.memory = memory;
    this.granted(told, sentAt);
  }

  failed(error: LockStoreError): void {
    this.node.muteSince = this.askedAt;
    this.lateUntil = this.ballot.limit;
    if (this.ballot.state === 'over') this.withdraw();
    this.hear?.(error);
  }

  /** Releases the ballot, where the node may have it, and leaves its mark. */
  leave(hear: Hear<'released' | 'lost'>): void {
    const { ballot, ballot: { redlock, spot }, node } = this;
    const leaving = ballot.leaving!;
    if (!this.mayHave) {
      if (leaving.mark !== undefined) redlock.mark(node, this.key, ballot.request.id, leaving.mark);
      return hear('lost');
    }
    this.mayHave = false;
    const told = (reply: Reply<'released' | 'lost'>): void => {
      if (reply instanceof LockStoreError || this.lateUntil !== undefined) this.withdraw();
      hear(reply);
    };
    node.store.parts.bundles.add(new BundledRelease(node.store.releases, leaving, spot, told));
  }

  /**
   * Takes the ballot back if it stands on the node. While its vote is out nothing is sent, because most of the last votes are refusals too.
   * A node that granted the ballot has no mark of its request, so the release leaves one there: without it, two requests that split the
   * votes would each be called by less than a quorum for ever.
   */
  takeBack(): void {
    if (this.mayHave && (this.end !== undefined || this.lateUntil !== undefined)) this.leave(() => {});
  }

  /** Releases it until the node has answered. */
  private withdraw(): void {
    const { ballot: { leaving, endsAt, redlock: { clock } }, lateUntil } = this;
    this.node.background.release({ ...leaving!, lateUntil }, endsAt - clock.now());
  }

  /** Removes the mark of the request, whose wait has ended. */
  unmark(): void {
    const { ballot: { redlock, request }, node } = this;
    redlock.mark(node, this.key, request.id);
  }

  /**
   * Renews the ballot on the node. A node that has forgotten it has it back then. One that has forgotten nothing and would have it still says
   * by its absence that a forced release took it away. Never rejects.
   */
  async renew(leaseMs: number): Promise<RenewOutcome> {
    const { end = -Infinity, memory, ballot: { redlock: { clock } } } = this;
    const mayRemember = memory !== undefined && clock.now() < end;
    const outcome = await this.renewal(leaseMs, mayRemember ? memory : undefined);
    if (outcome.kind === 'lost') this.isTaken = mayRemember;
    return outcome;
  }

  /** Gives the ballot to the node, with its fence, unless the node has granted the lock to somebody else. Never rejects. */
  give(leaseMs: number): Promise<RenewOutcome> {
    // The node was asked before whether it still has the ballot. NO_MEMORY is the name of no memory, so the node takes it as one that it forgot.
    return this.renewal(leaseMs, NO_MEMORY);
  }

  /**
   * Renews the ballot on the node, and brings it back, under its fence, if the node had it with the memory of this name and has another one
   * now. It does not get its minHoldMs then: the others, a quorum, keep the time.
   */
  private async renewal(leaseMs: number, memory: string | undefined): Promise<RenewOutcome> {
    const { node, ballot, ballot: { key, id, mode, firstFence, fences, trustedUntil, terms: { graceMs, owner, label } } } = this;
    const held = {
      get isHeld() {
        return ballot.state !== 'over';
      },
      isReleased: false, mode, firstFence, fences, owner, label, trustedUntil, memory, permits: undefined, minHoldUntil: -Infinity,
    };
    this.mayHave ||= memory !== undefined;
    const [outcome] = (await node.store.renew([{ key, id, leaseMs, graceMs, minReplicas: 0, held: memory === undefined ? undefined : held }])) as [RenewOutcome];
    if (outcome.kind === 'renewed') {
      this.end = outcome.trustedUntil;
      this.memory = outcome.memory ?? this.memory;
    }
    // Without an answer the request may still bring it back.
    if (outcome.kind === 'unknown') this.lateUntil = outcome.lateUntil ?? this.lateUntil;
    if (ballot.state === 'over' && (this.mayHave || this.lateUntil !== undefined)) this.withdraw();
    return outcome;
  }

  /** What the node says that granted what was asked for: no more than its time. */
  private grantedAsAsked(now: number): Granted {
    // Other scripts answer 0 and 1, which are no time.
    if (now <= 1) throw unexpected(now);
    const { proposal, leaseMs, mode } = this.ballot.terms;
    return { kind: 'granted', now, fence: proposal, leftMs: leaseMs, mode, shared: false, contended: false, memory: undefined };
  }

  private granted(vote: Granted, sentAt: number): void {
    const { ballot } = this;
    if (ballot.state === 'over') {
      // A vote may come after the release: a script that the server did not know is sent again, behind it.
      this.mayHave ||= sentAt >= ballot.leaving!.askedAt || this.lateUntil !== undefined;
      this.takeBack();
    } else {
      this.lateUntil = undefined;
      if (ballot.firstFence === 0) this.vote = vote;
      else if (vote.fence !== ballot.firstFence) void this.give(ballot.terms.leaseMs);
    }
    this.hear?.(vote);
  }

  private refused(told: Exclude<VoteReply, Granted>): void {
    const { ballot, node } = this;
    const now = node.store.parts.clock.now();
    // Where the time of the node was not known, the request was too late by any clock, and only learned the time.
    if (told.kind === 'late' && this.notAfter === 0 && now < ballot.limit) return this.ask(now);
    if (told.kind === 'closed') node.doubt();
    this.mayHave = false;
    if (told.kind === 'busy' && ballot.waitedMs >= 0) {
      // Once a quorum of others has granted the lock, its mark would be that of a wait that has ended.
      if (ballot.state === 'held') this.unmark();
      else this.isMarked = true;
    }
    this.hear?.(told);
  }
}

/** The mark of a request as a release brings it to the nodes (marks.lua). */
export function markOf({ id, mode }: AcquireRequest, waitedMs: number, patienceMs: number): string {
  return `${mode[0]},${Math.floor(waitedMs)},${patienceMs},${id}`;
}

/** Whether the answer says that others have the lock, or that its owner has it already. */
function isAgainst(vote: VoteReply): boolean {
  return vote.kind === 'busy' || vote.kind === 'upgrade' || vote.kind === 'full' || (vote.kind === 'granted' && vote.shared);
}

/**
 * What an answer is counted as. A number is the fence of the owner's hold, in which the node granted a share: nodes that answer
 * different fences do not agree. A node that failed cannot grant, which counts as a vote against.
 */
type Word = 'granted' | number | 'upgrade' | 'full' | 'against';

function wordOf(reply: Reply<VoteReply> | undefined): Vote<Word> {
  if (reply === undefined) return undefined;
  if (reply instanceof LockStoreError) return 'against';
  if (reply.kind === 'granted') return reply.shared ? reply.fence : 'granted';
  return reply.kind === 'upgrade' || reply.kind === 'full' ? reply.kind : 'against';
}

/** How an answer is described in messages. */
function textOfVote({ kind }: VoteReply): string {
  const texts: Partial<Record<VoteReply['kind'], string>> = {
    closed: 'restarted or flushed, and stays out until what it may have forgotten has ended and the others have told it the last fences',
    late: 'received the request after its deadline',
    upgrade: 'the owner reads',
    full: 'the owner has as many holds as can be',
  };
  return texts[kind] ?? kind;
}

/**
 * Renews a lease by quorum. A node that does not have it is given it while the lease can be trusted, so that a lease outlives the nodes it
 * began on: until then no other process can have been granted the lock, for each node of its quorum has it, or forgot it and is closed for
 * longer. That holds without a quorum of the others too: a lease that three of five nodes granted outlives the loss of one of the three.
 *
 * A node from which a forced release took the lease away is not given it before it would have ended there: other nodes may be about
 * to let it be taken away, and a quorum that has it now would have it still. Where no quorum has it, one such node is enough to end it.
 * A quorum may have confirmed the forced release, for which a node counts that let anybody's lease be taken away; a node that never
 * granted this one would bring it back then.
 *
 * Never rejects.
 */
export async function renewByQuorum(ballot: Ballot, leaseMs: number): Promise<RenewOutcome> {
  const { key, standings, request, redlock: { nodes, quorum, clock } } = ballot;
  ballot.lasts(leaseMs + request.leaseMs + (request.graceMs ?? 0));
  let isKept = false;
  const giveBack = (reply: Reply<RenewOutcome> | undefined, at: number): void => {
    if (isKept && isOf(reply, 'lost') && !standings[at]!.isTaken) void standings[at]!.give(leaseMs);
  };
  const replies = await poll<RedlockNode, RenewOutcome, Replies<RenewOutcome>>(
    nodes,
    asking(key, (_, at) => standings[at]!.renew(leaseMs)),
    (all, count) => (count === nodes.length || all.filter((reply) => isOf(reply, 'renewed')).length >= quorum ? all : undefined),
    giveBack,
  );
  const kept = replies.filter((reply) => isOf(reply, 'renewed'));
  const missing = standings.filter((_, at) => isOf(replies[at], 'lost'));
  const mayGoOn = ballot.takenOn === 0 && clock.now() < ballot.trustedUntil;
  isKept = kept.length >= quorum;
  replies.forEach(giveBack);
  // Where no quorum has it, the nodes that do not have it can be given it, while one has it or they are too few for a loss.
  if (!isKept && mayGoOn && (kept.length > 0 || missing.length < quorum)) {
    kept.push(...(await Promise.all(missing.map((standing) => standing.give(leaseMs)))).filter((outcome) => isOf(outcome, 'renewed')));
  }
  // A ballot that was taken back meanwhile is not held any more, though the nodes renewed it before.
  if (ballot.state !== 'held') return { kind: 'lost' };
  if (kept.length >= quorum) {
    const trustedUntil = (ballot.trustedUntil = quorumEnd(kept.map(({ trustedUntil }) => trustedUntil), quorum));
    // It is enough that one node says that somebody waits.
    return { kind: 'renewed', trustedUntil, contended: kept.some(({ contended }) => contended) };
  }
  if (missing.length >= quorum && !(kept.length > 0 && mayGoOn)) return { kind: 'lost' };
  return { kind: 'unknown', cause: noQuorum('a renewal', key, nodes, replies, textOfRenewal) };
}

function isOf<K extends RenewOutcome['kind']>(reply: Reply<RenewOutcome> | undefined, kind: K): reply is Extract<RenewOutcome, { kind: K }> {
  return reply !== undefined && 'kind' in reply && reply.kind === kind;
}

/** What a node said; with the words in which it refused the key of this lock. */
function textOfRenewal(outcome: RenewOutcome): string {
  return outcome.kind === 'unknown' && outcome.cause instanceof LockStoreError ? reasonOf(outcome.cause) : outcome.kind;
}
