/**
 * One attempt to get one lock from the nodes, and the lease if the attempt succeeds. Every attempt has an id of its own on the
 * nodes, so that late requests of an old attempt, which take the lock or take it back, can never touch a new attempt.
 *
 *     open ──(a quorum granted, one fence, time left)──▶ held ──▶ over   released or lost
 *       └──(refused, failed, cancelled)────────────────────────▶ over   and taken back wherever it may stand
 */
import { LockStoreError } from '../../core/port/errors.js';
import {
  NO_MEMORY, type AcquireOutcome, type AcquireRequest, type Done, type Grant, type HeldLease, type Released, type RenewOutcome, type Reply,
} from '../../core/port/lock-store.js';
import type { LockMode } from '../../core/port/lock-options.js';
import type { MarkingRelease, Vote } from '../redis/requests.js';
import { trustOf } from '../wire/server-clock.js';
import { agree, ANSWERS_WITHIN_MS, answersOf, asking, noQuorum, poll, quorumEnd, verdict, type Counted, type Replies } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';
import type { RedlockStore } from './redlock-store.js';

/** In ms: a garbage collection in this process, or a busy moment of a server, must not look like a dead node. */
const SHORTEST_TIMEOUT_MS = 50;
/** The longest pauses before a refused request asks again, in ms: at first, and when it has waited for long. A message that should end a pause may be lost. */
const PAUSE_MS = 200;
const PAUSE_OF_LONG_WAITS_MS = 800;
const LONG_WAIT_MS = 3_000;
/** The least pause in ms of a request that waits for the end of a lease, for a lease that has just ended. */
const MIN_PAUSE_AT_LEASE_END_MS = 20;
/**
 * A request to write counts as having waited for up to so many times the length of a ballot longer than it has, drawn anew for each ballot. The marks
 * of requests that come together reach each node in the order of their distances, another one on each node: then none would be first on a quorum.
 */
const HEAD_START = 3;

export class Ballot {
  state: 'open' | 'held' | 'over' = 'open';
  /** The local instant until which a quorum is known to have the ballot. */
  trustedUntil = -Infinity;
  mode!: LockMode;
  /** The first fence of the grant; 0 until a quorum has voted. */
  fence = 0;
  fences = 0;
  /** True if others wait for the lock. */
  contended = false;
  /** The ballot on each node, in the order of the nodes. */
  readonly standings: readonly Standing[] = this.redlock.nodes.map((node) => new Standing(this, node));
  /** The nodes that have called its request since it was cast: each keeps the free lock for that, because it has waited longest there. */
  readonly called = new Set<RedlockNode>();
  private readonly headStartMs = this.request.mode === 'write' ? HEAD_START * this.redlock.ballotMs * Math.random() : 0;
  private castAt: number | undefined;
  /** What comes of it, once it was cast: a request that is made twice is one ballot. */
  outcome: Promise<AcquireOutcome> | undefined;
  /** Once it is over: what its releases say. */
  releaseRequest: (MarkingRelease & { readonly askedAt: number }) | undefined;

  constructor(
    readonly redlock: RedlockStore,
    readonly request: AcquireRequest,
    /** The ballot's id on the nodes. */
    readonly id: string,
    /** The local instant from which the request waits; undefined when it does not wait. */
    readonly since: number | undefined,
  ) {}

  /** True if its request waits, or will if it is refused. */
  get waits(): boolean {
    return this.since !== undefined && this.state !== 'held';
  }

  /** True if nodes had the lock to give, and voted for it. */
  get hasVotes(): boolean {
    return this.standings.some(({ vote }) => vote !== undefined);
  }

  /** How many nodes said that a forced release took the lock away there. */
  get takenOn(): number {
    return this.standings.filter(({ isTaken }) => isTaken).length;
  }

  /** Asks all nodes. Rejects with LockStoreError when no quorum answered. A ballot that is not granted has to be taken back. */
  cast(): Promise<AcquireOutcome> {
    const { redlock: { nodes, quorum, clock, options: { commandTimeoutMs }, floors }, id, standings, request } = this;
    const { key, leaseMs } = request;
    const now = (this.castAt = clock.now());
    const proposal = Math.max(floors.highest[nodes[0]!.store.redis.keys.groupOf(key)]! + 1, Math.floor(clock.wallNow()) * 1_000);
    const timeoutMs = Math.min(commandTimeoutMs, ANSWERS_WITHIN_MS, Math.max(SHORTEST_TIMEOUT_MS, leaseMs / 10));
    const notAfter = Math.min(request.notAfter, now + Math.max(leaseMs, commandTimeoutMs));
    const asked = { ...request, id, queue: false, replaces: undefined, askedAt: now, notAfter, vote: { proposal, mark: this.mark(), timeoutMs } };
    this.outcome = poll<AcquireOutcome, AcquireOutcome>(
      nodes,
      (node, done, at) => {
        // A silent node is not asked while the others are a quorum, so that nobody waits for it.
        const isAsked = node.isListening || (node.isUsable && nodes.filter(({ isListening }) => isListening).length < quorum);
        if (isAsked) standings[at]!.ask(asked, done);
        else done(node.refusal(key));
      },
      (replies) => {
        const result = verdict(replies.map(wordOf));
        return result === undefined ? undefined : this.decided(replies, result);
      },
    );
    return this.outcome;
  }

  /** The mark of its request, as a vote or a release brings it to the nodes (marks.lua); undefined when that does not wait. */
  mark(): string | undefined {
    const { since, headStartMs, request: { id, mode }, redlock: { clock } } = this;
    return since === undefined ? undefined : `${mode[0]},${Math.floor(clock.now() - since + headStartMs)},${id}`;
  }

  /** The grant, as its holder may trust it now. */
  grant(): Grant {
    const { fence, fences, mode, trustedUntil, contended } = this;
    return { fence, fences, mode, trustedUntil, contended };
  }

  /** Ends the ballot and releases it on the nodes, also in the background on those that do not answer. */
  release(how: Partial<MarkingRelease>): Promise<Released> {
    this.end(how);
    return agree<Released>('a release', this.request.key, this.redlock.nodes, (_, done, at) => this.standings[at]!.release(done));
  }

  /** Ends the ballot, if it has not ended, and takes it back from all nodes on which it may stand. `mark`: the mark that its request has there then. */
  takeBack(mark?: string): void {
    if (this.state === 'over') return;
    this.end({ mark });
    for (const standing of this.standings) standing.takeBack();
  }

  /** A ballot under which nobody has worked owes no minHoldMs. */
  private end({ mark, abandoned, askedAt = this.redlock.clock.now() }: Partial<MarkingRelease>): void {
    const { id, trustedUntil, state, request: { key } } = this;
    this.releaseRequest = { key, id, askedAt, trustedUntil, abandoned: abandoned || state !== 'held', mark };
    this.state = 'over';
  }

  /**
   * What comes of the ballot now that the missing votes cannot change it. A grant has one fence: that of the owner's hold that is shared, or
   * the greatest of the votes. It is written to the nodes that answered another one, and nobody uses it before a quorum has it: every later
   * quorum then has a node that knows it.
   */
  private decided(replies: Replies<AcquireOutcome>, result: Word | 'split'): AcquireOutcome | Promise<AcquireOutcome> {
    if (this.state === 'over') return this.busy(0);
    if (result !== 'granted' && typeof result !== 'number') return this.refused(replies, result);
    const counted = this.standings.filter((_, at) => wordOf(replies[at]) === result);
    const { mode, fences } = counted[0]!.vote!;
    this.mode = mode;
    // A share of a hold has the fence of that.
    this.fences = Math.max(1, fences);
    this.fence = Math.max(...counted.map(({ vote }) => vote!.fence));
    // The limit of what nodes are told of it until a quorum is known to have it.
    this.trustedUntil = Math.max(...counted.map(({ vote }) => vote!.trustedUntil));
    const agreed = counted.filter(({ vote }) => vote!.fence === this.fence);
    const others = this.standings.filter(({ vote }) => vote !== undefined && vote.fence !== this.fence);
    const raised = others.map((standing) => standing.give(this.request.leaseMs));
    // Where a quorum has the fence, that of another node matters only to a later share of the hold, which compares it there.
    if (agreed.length >= this.redlock.quorum) return this.granted(agreed);
    return Promise.all(raised).then((outcomes) => this.granted([...agreed, ...others.filter((_, at) => outcomes[at]!.kind === 'renewed')]));
  }

  private granted(agreed: readonly Standing[]): AcquireOutcome {
    if (this.state === 'over') return this.busy(0);
    const { nodes, quorum, clock } = this.redlock;
    const trustedUntil = quorumEnd(agreed.map(({ end }) => end!), quorum);
    const now = this.notesLength(clock.now());
    if (now >= trustedUntil) {
      const words = this.standings.map((standing) => (agreed.includes(standing) ? 'agreed' : standing.vote && 'lost the vote'));
      throw noQuorum(`its agreement on a fence within its ${this.request.leaseMs} ms`, this.request.key, nodes, words);
    }
    this.state = 'held';
    this.trustedUntil = trustedUntil;
    for (const standing of this.standings) if (!standing.mayHave) standing.removeMark();
    return { kind: 'granted', grant: this.grant() };
  }

  private refused(replies: Replies<AcquireOutcome>, result: Exclude<Word, 'granted' | number> | 'split'): AcquireOutcome {
    if (result !== 'split') return { kind: result };
    const { nodes, quorum } = this.redlock;
    // A node that shares the hold of the owner has the lock for it already.
    const against = answersOf(replies).filter((vote) => vote.kind !== 'recovering' && wordOf(vote) !== 'granted');
    // Without answers from a quorum nobody knows whether the lock is busy.
    const failed = replies.filter((reply) => reply instanceof LockStoreError).length;
    if (failed > nodes.length - quorum || against.length === 0) throw noQuorum('a grant', this.request.key, nodes, replies);
    return this.busy(Math.max(0, ...against.map((vote) => (vote.kind === 'busy' ? vote.retryInMs : Infinity))));
  }

  /** `leftMs`: in how many ms the present lease, or the turn of another request, ends as far as the nodes know. */
  busy(leftMs: number): AcquireOutcome {
    const { since, redlock: { clock } } = this;
    const now = this.notesLength(clock.now());
    // Otherwise two requests that split the votes would be called by less than a quorum each, for ever.
    this.takeBack(this.mark());
    return { kind: 'busy', retryInMs: retryPause(since === undefined ? 0 : now - since, leftMs) };
  }

  /** Notes how long the ballot took until now, which the next ones reckon with, unless a node was silent; returns that instant. */
  private notesLength(now: number): number {
    if (this.castAt !== undefined && this.standings.every(({ lateUntil }) => lateUntil === undefined)) this.redlock.ballotMs = now - this.castAt;
    return now;
  }
}

/** A ballot on one node: what is known of it there. */
class Standing {
  /** True if the node may have the ballot: it was asked for it, has not said that it does not have it, and no release was sent behind. */
  mayHave = false;
  /** Where the node did not answer: the local instant until which what it was asked may still act. */
  lateUntil: number | undefined;
  /** Where the node has said that it has the ballot: until when, in local time, and which memory of the node knows it. */
  end: number | undefined;
  private memory: string | undefined;
  /** Its vote, if that came before a quorum had voted. */
  vote: Grant | undefined;
  /** True if a forced release took the lock away there: the node said so, or would have the ballot still. */
  isTaken = false;

  constructor(
    private readonly ballot: Ballot,
    readonly node: RedlockNode,
  ) {}

  /** Asks for the node's vote. */
  ask(request: AcquireRequest & { readonly vote: Vote }, done: Done<AcquireOutcome>): void {
    const { ballot, node } = this;
    this.mayHave = true;
    void node.store.acquire(request, (reply) => {
      if (reply instanceof LockStoreError) {
        // The request may still come.
        this.lateUntil = request.notAfter;
        if (ballot.state === 'over') this.withdraw();
      } else if (reply.kind === 'granted') this.granted(reply.grant);
      else this.refused(reply.kind);
      done(reply);
    });
  }

  /** Releases the ballot, where the node may have it, and leaves its mark on every node. */
  release(done: Done<Released>): void {
    const { ballot: { releaseRequest }, node, mayHave } = this;
    if (!mayHave && (releaseRequest!.mark === undefined || !node.isUsable)) return done('lost');
    this.mayHave = false;
    void node.store.release(releaseRequest!, (reply) => {
      if (mayHave && (reply instanceof LockStoreError || this.lateUntil !== undefined)) this.withdraw();
      done(reply);
    });
  }

  /** Takes the ballot back if it stands on the node. While its vote is out nothing is sent, because most of the last votes are refusals too. */
  takeBack(): void {
    if (this.mayHave && (this.end !== undefined || this.lateUntil !== undefined)) this.release(() => {});
  }

  /** Releases it until the node has answered. */
  private withdraw(): void {
    const { ballot: { releaseRequest, request: { graceMs = 0 }, redlock: { options: { maxLeaseMs } } }, lateUntil } = this;
    // By then it has ended by itself, however it was renewed.
    this.node.background.release({ ...releaseRequest!, lateUntil }, maxLeaseMs + graceMs);
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
    const { node, ballot, ballot: { id, mode, trustedUntil, request, request: { key, graceMs } } } = this;
    const held: HeldLease = {
      state: ballot.state === 'over' ? 'lost' : 'held', mode, grant: ballot.grant(), options: request, trustedUntil, memory, minHoldUntil: -Infinity,
    };
    this.mayHave ||= memory !== undefined;
    const outcome = await node.store.renew({ key, id, leaseMs, graceMs, minReplicas: 0, held: memory === undefined ? undefined : held });
    if (outcome.kind === 'renewed') {
      this.end = outcome.trustedUntil;
      this.memory = outcome.memory ?? this.memory;
    }
    // Without an answer the request may still bring it back.
    if (outcome.kind === 'unknown') this.lateUntil = outcome.lateUntil ?? this.lateUntil;
    // It may have been released meanwhile, before it was brought back.
    if (ballot.state === 'over' && (outcome.kind === 'renewed' || this.lateUntil !== undefined)) this.withdraw();
    return outcome;
  }

  private granted(vote: Grant): void {
    const { ballot, ballot: { request } } = this;
    ballot.contended ||= vote.contended;
    this.end = vote.trustedUntil;
    this.memory = vote.memory;
    if (ballot.state === 'over') {
      // A vote may come after the release: a script that the server did not know is sent again, behind it.
      this.mayHave ||= vote.trustedUntil >= trustOf(Math.floor(request.leaseMs), ballot.releaseRequest!.askedAt);
      this.takeBack();
    } else if (ballot.fence === 0) this.vote = vote;
    else if (vote.fence !== ballot.fence) void this.give(request.leaseMs);
  }

  private refused(kind: AcquireOutcome['kind']): void {
    const { ballot, node } = this;
    // One that is out is looked at from time to time.
    if (kind === 'recovering' && !node.isOut) node.store.recovery.suspect();
    this.mayHave = false;
    if (ballot.state === 'held') this.removeMark();
  }

  /** Once a quorum of others has granted the lock, the mark that its request may have on the node is that of a wait that has ended. */
  removeMark(): void {
    const { since, request: { key, id } } = this.ballot;
    if (since !== undefined) this.node.unmark(key, id);
  }
}

/**
 * How long a refused request waits before it asks again, unless a message calls it earlier. The pause is random, so that two requests
 * that split the votes do not split them again. A request that has waited for seconds asks seldom, because its mark on the nodes keeps its
 * turn: candidates wait for days.
 */
export function retryPause(waitedMs: number, leftMs: number, random = Math.random()): number {
  const longest = waitedMs < LONG_WAIT_MS ? PAUSE_MS : PAUSE_OF_LONG_WAITS_MS;
  return Math.min((longest * (1 + random)) / 2, Math.max(MIN_PAUSE_AT_LEASE_END_MS * (0.5 + random / 2), leftMs));
}

/**
 * What an answer is counted as, if it is not a vote against. A number is the fence of the owner's hold, in which the node granted a share:
 * nodes that answer different fences do not agree. A node that failed cannot grant, which counts as a vote against.
 */
type Word = 'granted' | number | 'upgrade' | 'full';

function wordOf(vote: Reply<AcquireOutcome> | undefined): Counted<Word> {
  if (vote === undefined) return undefined;
  if (vote instanceof LockStoreError) return null;
  if (vote.kind === 'granted') return vote.grant.fences === 0 ? vote.grant.fence : 'granted';
  return vote.kind === 'upgrade' || vote.kind === 'full' ? vote.kind : null;
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
  const { standings, request: { key }, redlock: { nodes, quorum, clock } } = ballot;
  let isKept = false;
  const restore = (reply: Reply<RenewOutcome> | undefined, at: number): void => {
    if (isKept && isOf(reply, 'lost') && !standings[at]!.isTaken) void standings[at]!.give(leaseMs);
  };
  const replies = await poll<RenewOutcome, Replies<RenewOutcome>>(
    nodes,
    asking(key, (_, at) => standings[at]!.renew(leaseMs)),
    (all, count) => (count === nodes.length || all.filter((reply) => isOf(reply, 'renewed')).length >= quorum ? all : undefined),
    restore,
  );
  const kept = replies.filter((reply) => isOf(reply, 'renewed'));
  const missing = standings.filter((_, at) => isOf(replies[at], 'lost'));
  const mayGoOn = ballot.takenOn === 0 && clock.now() < ballot.trustedUntil;
  isKept = kept.length >= quorum;
  replies.forEach(restore);
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
  return { kind: 'unknown', cause: noQuorum('a renewal', key, nodes, replies) };
}

function isOf<K extends RenewOutcome['kind']>(reply: Reply<RenewOutcome> | undefined, kind: K): reply is Extract<RenewOutcome, { kind: K }> {
  return reply !== undefined && 'kind' in reply && reply.kind === kind;
}
