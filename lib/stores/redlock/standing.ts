/**
 * A ballot on one node: the request for the node's vote, and what is known of the ballot there.
 */
import { LockStoreError } from '../../core/port/errors.js';
import type { ReleaseRequest, RenewOutcome } from '../../core/port/lock-store.js';
import type { BundledRequest } from '../wire/bundles.js';
import { listOf } from '../wire/lock-reply.js';
import { addVote, readVote, vote, type ScriptArgument, type VoteArgs, type VoteReply } from '../wire/lua.generated.js';
import type { ScriptReply } from '../wire/script-runner.js';
import { LONG_AGO, trustOf } from '../wire/server-clock.js';
import { unexpected } from '../wire/store-failure.js';
import type { Ballot } from './ballot.js';
import type { Hear, Reply } from './poll.js';
import type { Vote } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';

/** What all nodes are asked for; the last two are each node's own, and are written when its request is. */
export type VoteTerms = { -readonly [Name in keyof VoteArgs]: VoteArgs[Name] };

/** `leftMs` of a node that is busy: the time until the present lease ends, or -1 when it is another process's turn. */
export type NodeVote = VoteReply;
type Granted = Extract<VoteReply, { kind: 'granted' }>;

export class Standing implements BundledRequest {
  /** Whether the node may have the ballot: it was asked for it, and did not say that it does not have it. */
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
  /** Whether a release was sent behind its vote. */
  private hasLeft = false;
  /** Whether the node said that a forced release took the lock away there. */
  isTaken = false;
  readonly lockKey: string;
  /** The request for the vote: when it was made, until when the node may act on it by its own time, and what was known of its memory. */
  askedAt = 0;
  private notAfter = 0;
  private known = '';
  private connection = 0;
  private hear: Hear<NodeVote> = () => {};

  constructor(
    private readonly ballot: Ballot,
    readonly node: RedlockNode,
  ) {
    this.lockKey = ballot.spot.lockKey;
  }

  get key(): string {
    return this.ballot.spot.key;
  }

  get timeoutMs(): number {
    return this.ballot.timeoutMs;
  }

  /** Asks for the node's vote. */
  ask(now: number, hear: Hear<NodeVote>): void {
    const { bundles, trust } = this.node.store.parts;
    this.mayHave = true;
    this.askedAt = now;
    this.hear = hear;
    this.notAfter = trust.clock.before(0, this.ballot.limit, now);
    bundles.add(vote, 0, this);
  }

  addTo(keys: string[], args: ScriptArgument[]): void {
    const { spot, terms } = this.ballot;
    const { memories } = this.node.store.parts;
    this.known = terms.known = memories.of(spot.group);
    this.connection = memories.connection;
    terms.notAfter = this.notAfter || LONG_AGO;
    addVote(keys, args, spot, terms);
  }

  answered(reply: ScriptReply, sentAt: number): void {
    const { ballot, node, known } = this;
    const { trust, clock } = node.store.parts;
    const told = typeof reply === 'number' ? this.grantedAsAsked(reply) : readVote(listOf(reply));
    if (typeof reply !== 'number' || !trust.clock.isFresh(0, sentAt)) trust.clock.observe(0, { sentAt, receivedAt: clock.now(), serverNow: told.now });
    if (told.kind !== 'granted') return this.refused(told);
    const { fence, leftMs, contended, memory = known } = told;
    const { group } = ballot.spot;
    if (memory !== known) node.store.recovery.compare(group, memory, this.connection);
    ballot.context.floors.saw(group, fence + ballot.fences - 1);
    ballot.isWanted ||= contended;
    this.keeps(trustOf(leftMs, sentAt), memory);
    this.granted(told, sentAt);
  }

  failed(error: LockStoreError): void {
    this.node.store.muteSince = this.askedAt;
    this.lateUntil = this.ballot.limit;
    if (this.ballot.state === 'over') this.takeBack();
    this.hear(error);
  }

  /** Releases the ballot, where the node may have it. */
  leave(leaving: ReleaseRequest, hear: Hear<'released' | 'lost'>): void {
    if (!this.mayHave) return hear('lost');
    this.hasLeft = true;
    this.node.store.leave(leaving, this.ballot.spot, (reply) => {
      if (reply instanceof LockStoreError || this.lateUntil !== undefined) this.withdraw();
      hear(reply);
    });
  }

  /** Takes the ballot back if it stands on the node. While its vote is out nothing is sent, because most of the last votes are refusals too. */
  takeBack(): void {
    if (!this.mayHave || (this.end === undefined && this.lateUntil === undefined)) return;
    const { ballot, node } = this;
    // Where it was granted there is no mark of it, and two who split the votes would be called by less than a quorum for ever.
    if (ballot.markToKeep !== undefined) ballot.context.mark(node, this.key, ballot.markToKeep);
    this.withdraw();
  }

  /** Releases it until the node has answered. */
  private withdraw(): void {
    const { ballot, node, lateUntil = -Infinity } = this;
    this.hasLeft = true;
    ballot.context.withdraw(node, ballot.leaving(), ballot.endsAt, lateUntil);
  }

  /** Removes the mark of this process, whose wait has ended. */
  unmark(): void {
    this.ballot.context.mark(this.node, this.key);
  }

  /** Notes that the node has the ballot. */
  keeps(end: number, memory: string | undefined): void {
    this.mayHave = true;
    this.end = end;
    this.memory = memory;
  }

  /** Notes what came of giving the ballot to the node. Without an answer the request may still act there until the end of the trust. */
  given(outcome: RenewOutcome): void {
    if (outcome.kind === 'renewed') this.keeps(outcome.trustedUntil, outcome.memory);
    else if (outcome.kind === 'lost') this.mayHave = false;
    else this.lateUntil = this.ballot.trustedUntil;
    if (this.ballot.state === 'over') this.withdraw();
  }

  /** Gives the fence to a node that voted with another one. False when the vote does not stand there any more. Never rejects. */
  async raiseFence(): Promise<boolean> {
    const { ballot } = this;
    const [outcome] = await this.node.store.renew([ballot.renewal(ballot.terms.leaseMs, ballot)]);
    this.given(outcome!);
    return outcome!.kind === 'renewed';
  }

  /**
   * Whether a node that says at `now` that it does not have the ballot has let it be taken away: it had it, has forgotten nothing, and
   * would keep it until later.
   */
  wasTaken(now: number): boolean {
    return this.end !== undefined && now < this.end && this.memory === this.node.store.memoryOf(this.key);
  }

  /** The same, or it cannot be excluded: the node may have granted it, but has not answered since. */
  mayBeTaken(now: number): boolean {
    return this.wasTaken(now) || (this.mayHave && this.end === undefined && now < this.ballot.endsAt);
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
      if (!this.hasLeft || sentAt >= ballot.overAt || this.lateUntil !== undefined) this.takeBack();
    } else {
      this.lateUntil = undefined;
      if (ballot.firstFence === 0) this.vote = vote;
      else if (vote.fence !== ballot.firstFence) void this.raiseFence();
    }
    this.hear(vote);
  }

  private refused(told: Exclude<NodeVote, Granted>): void {
    const { ballot, node } = this;
    const now = node.store.parts.clock.now();
    // Where the time of the node was not known, the request was too late by any clock, and only learned the time.
    if (told.kind === 'late' && this.notAfter === 0 && now < ballot.limit) return this.ask(now, this.hear);
    if (told.kind === 'closed') void node.look();
    this.mayHave = false;
    if (told.kind === 'busy' && ballot.waitedMs >= 0) {
      // Once a quorum of others has granted the lock, its mark would be that of a wait that has ended.
      if (ballot.state === 'held') this.unmark();
      else this.isMarked = true;
    }
    this.hear(told);
  }
}

/**
 * What an answer is counted as. A number is the fence of the owner's hold, in which the node granted a share: nodes that answer
 * different fences do not agree. A node that failed cannot grant, which counts as a vote against.
 */
export type Word = 'granted' | number | 'upgrade' | 'full' | 'against';

export function wordOf(reply: Reply<NodeVote> | undefined): Vote<Word> {
  if (reply === undefined) return undefined;
  if (reply instanceof LockStoreError) return 'against';
  if (reply.kind === 'granted') return reply.shared ? reply.fence : 'granted';
  return reply.kind === 'upgrade' || reply.kind === 'full' ? reply.kind : 'against';
}

/** How an answer is described in messages. */
export function textOfVote({ kind }: NodeVote): string {
  const texts: Partial<Record<NodeVote['kind'], string>> = {
    closed: 'restarted or flushed, and stays out until it was told the last fences',
    late: 'received the request after its deadline',
    upgrade: 'the owner reads',
    full: 'the owner has as many holds as can be',
  };
  return texts[kind] ?? kind;
}
