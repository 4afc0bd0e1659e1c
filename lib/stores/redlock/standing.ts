/**
 * On which nodes a ballot may stand, and until when. It may stand on a node from the moment the node is asked until the node says
 * that it does not, and at the latest until its lease has ended there by itself. When the ballot is over, it is taken back from all of them.
 */
import { whereaboutsOf } from '../../core/port/holder-id.js';
import { marginOf } from '../wire/server-clock.js';
import type { NodeSpot } from '../wire/redis-keys.js';
import type { Leaving, Mark } from './node-vote.js';
import type { QuorumContext } from './quorum-context.js';
import type { RedlockNode } from './redlock-node.js';

/** What is known of a ballot that a node has. */
interface Kept {
  /** The local instant until which it keeps the ballot without a further request. */
  readonly until: number;
  /** The server that said so: another run id is a restart, or another server in its place. */
  readonly runId: string | undefined;
}

/** Other classes read the public fields of a standing; only the standing itself writes them. */
export class Standing {
  /** The local instant until which a quorum is known to have the ballot. */
  trustedUntil = -Infinity;
  /** The local instant at which the ballot has ended by itself on every node. */
  endsAt = 0;
  /** The process that should have the lock next, if one waits for it. */
  next: string | undefined;
  private readonly asked = new Set<RedlockNode>();
  /** Nodes that were asked for it and did not answer, each with the instant until which the request may still act. */
  private readonly mute = new Map<RedlockNode, number>();
  /** What the nodes that had the ballot said when they were asked last. */
  private readonly kept = new Map<RedlockNode, Kept>();
  /** Nodes which said that a forced release took the lock away there. */
  private readonly takenOn = new Set<RedlockNode>();
  private overAt = Infinity;
  /** Whether nobody has worked under this ballot, so that no minHoldMs is owed where it is taken back. */
  private abandoned = true;

  constructor(
    private readonly context: Pick<QuorumContext, 'clock' | 'withdrawals'>,
    private readonly on: NodeSpot,
    /** The ballot's id on the nodes. */
    private readonly id: string,
  ) {}

  /** What the nodes are told when the ballot is taken back or released. */
  get leaving(): Leaving {
    return this.leavingAt(undefined);
  }

  mayBeOn(node: RedlockNode): boolean {
    return this.asked.has(node);
  }

  /** Whether the lease may go on although a quorum of nodes lacks it: no operator released it, and it can still be trusted. */
  mayOutlive(now: number): boolean {
    return this.takenOn.size === 0 && now < this.trustedUntil;
  }

  /** Notes that the node has the ballot, and keeps it until this local instant. */
  keptBy(node: RedlockNode, until: number): void {
    this.kept.set(node, { until, runId: node.runId });
  }

  /**
   * Whether a node that says at `now` that it does not have the ballot has let it be taken away: it had it, has not been restarted,
   * and would keep it until later.
   */
  wasTakenFrom(node: RedlockNode, now: number): boolean {
    const kept = this.kept.get(node);
    return kept !== undefined && this.asked.has(node) && now < kept.until && kept.runId === node.runId;
  }

  /** The same, or it cannot be excluded: the node may have granted it, but has not answered since. */
  mayBeTakenFrom(node: RedlockNode, now: number): boolean {
    return this.wasTakenFrom(node, now) || (this.asked.has(node) && !this.kept.has(node) && now < this.endsAt);
  }

  /** Notes that the ballot was, or may have been, prolonged just now by `forMs`. */
  lasts(forMs: number): void {
    this.endsAt = Math.max(this.endsAt, this.context.clock.now() + forMs + marginOf(forMs));
  }

  /** Notes that the node is asked for the ballot. No request is sent to a node that is not connected. */
  asks(node: RedlockNode): void {
    if (node.connected) this.asked.add(node);
  }

  /** Notes that the node did not grant the ballot. */
  refusedBy(node: RedlockNode): void {
    this.asked.delete(node);
  }

  /** Notes that the node did not answer. Until `limit` the request may still act there. */
  noAnswerFrom(node: RedlockNode, limit: number): void {
    if (this.asked.has(node)) this.mute.set(node, limit);
    if (this.isOver) this.withdrawIfMute(node);
  }

  /** Notes that a quorum has the ballot, under which its holder works from now on. */
  granted(trustedUntil: number): void {
    this.trustedUntil = trustedUntil;
    this.abandoned = false;
  }

  renewed(trustedUntil: number): void {
    this.trustedUntil = trustedUntil;
  }

  /**
   * Notes that this process waits for the lock. The first that is named comes next, but never the process that has the lock: what
   * its requests in the other mode have waited, or a mark that outlived its request, would give it turn after turn.
   */
  wantedBy(process: string): void {
    if (process !== whereaboutsOf(this.id).process) this.next ??= process;
  }

  /** Notes that a forced release took the lock away on this node. Returns on how many nodes that has happened. */
  takenAwayOn(node: RedlockNode): number {
    return this.takenOn.add(node).size;
  }

  /** Notes that the ballot is over now. Returns what the nodes are told. */
  end(abandoned = false): Leaving {
    this.overAt = this.context.clock.now();
    this.abandoned ||= abandoned;
    return this.leavingAt(this.overAt);
  }

  /** Takes the ballot back from all nodes on which it may stand. */
  withdrawAll(mark: Mark | undefined): void {
    for (const node of this.asked) this.withdraw(node, mark);
  }

  withdraw(node: RedlockNode, mark?: Mark): void {
    const { leaving, endsAt: until, mute, context } = this;
    context.withdrawals.add({ node, ...leaving, mark, until, lateUntil: mute.get(node) });
  }

  /** Takes the ballot back once more when the node did not answer a vote request for it: that may still act, behind the release. */
  withdrawIfMute(node: RedlockNode): void {
    if (this.mute.has(node)) this.withdraw(node);
  }

  /** Notes a vote for a ballot that is over. It may have come after the release: a script that the server did not know is sent again, behind it. */
  grantedLateBy(node: RedlockNode, sentAt: number): void {
    if (sentAt >= this.overAt) this.withdraw(node);
  }

  private leavingAt(askedAt: number | undefined): Leaving {
    const { on, id, abandoned, next } = this;
    return { on, id, askedAt, mayBeOver: this.overAt >= this.trustedUntil, abandoned, next };
  }

  private get isOver(): boolean {
    return this.overAt < Infinity;
  }
}
