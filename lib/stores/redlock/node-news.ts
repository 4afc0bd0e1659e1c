/** Messages of the nodes of a Redlock to this process. They are hints: each becomes a wake when enough nodes have sent it. */
import type { Clock } from '../../core/port/clock.js';
import type { Wake } from '../../core/port/lock-store.js';
import type { Ballot } from './ballot.js';
import type { Ballots } from './ballots.js';
import type { RedlockNode } from './redlock-node.js';
import type { Waiters } from './waiters.js';

interface NewsParts {
  readonly ballots: Ballots;
  readonly waiters: Waiters;
  readonly clock: Clock;
  readonly quorum: number;
  /** Called for a ballot that is not wanted any more, to take it back from all nodes on which it may stand. */
  readonly drop: (ballot: Ballot) => void;
  readonly tell: (wake: Wake) => void;
}

export class NodeNews {
  constructor(private readonly parts: NewsParts) {}

  /** Another process waits for the lock that this ballot holds. The message of one node is enough. */
  contended(ballotId: string, by: string | undefined): void {
    const ballot = this.parts.ballots.find(ballotId);
    if (ballot === undefined) return;
    if (by !== undefined) ballot.standing.wantedBy(by);
    this.parts.tell({ kind: 'contended', key: ballot.key, id: ballot.holder });
  }

  /** The node keeps a free lock for this process, which has waited longest there. */
  turn(node: RedlockNode, key: string): void {
    const { waiters, clock, tell } = this.parts;
    for (const id of waiters.call(key, node, clock.now())) tell({ kind: 'ask', key, id });
  }

  /**
   * A forced release took the lock away on this node. When a quorum of nodes has said so, the process looks whether they still have the
   * lease: messages may be forged. A request whose votes are still being counted is ended, because nobody would look at its grant.
   */
  taken(node: RedlockNode, ballotId: string): void {
    const { ballots, quorum, drop, tell } = this.parts;
    const ballot = ballots.find(ballotId);
    if (ballot === undefined) return;
    if (ballot.standing.takenAwayOn(node) < quorum) return;
    if (ballot.state === 'open') drop(ballot);
    tell({ kind: 'lost', key: ballot.key, id: ballot.holder });
  }
}
