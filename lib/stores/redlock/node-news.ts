/** What nodes of a Redlock tell this process by message: hints, each of which becomes a wake when enough nodes say it. */
import type { Clock } from '../../core/port/clock.js';
import type { Wake } from '../../core/port/lock-store.js';
import type { Ballot } from './ballot.js';
import type { Ballots } from './ballots.js';
import type { RedlockNode } from './redlock-node.js';
import type { Waiters } from './waiters.js';

export interface NewsParts {
  readonly ballots: Ballots;
  readonly waiters: Waiters;
  readonly clock: Clock;
  readonly quorum: number;
  /** The ballot is lost: it is taken back from wherever it may stand. */
  readonly drop: (ballot: Ballot) => void;
  readonly tell: (wake: Wake) => void;
}

export class NodeNews {
  constructor(private readonly parts: NewsParts) {}

  /** Another process waits for what this ballot holds. One node's word is enough. */
  contended(ballotId: string, by: string | undefined): void {
    const ballot = this.parts.ballots.find(ballotId);
    if (ballot === undefined) return;
    ballot.next ??= by;
    this.parts.tell({ kind: 'contended', key: ballot.key, id: ballot.holder });
  }

  /** The node keeps a free lock for this process. */
  turn(node: RedlockNode, key: string): void {
    const { waiters, clock, tell } = this.parts;
    for (const id of waiters.call(key, node, clock.now())) tell({ kind: 'ask', key, id });
  }

  /** An operator took the lock away there: it is lost when so many nodes say so that the others are no quorum. */
  taken(node: RedlockNode, ballotId: string): void {
    const { ballots, quorum, drop, tell } = this.parts;
    const ballot = ballots.find(ballotId);
    if (ballot === undefined) return;
    ballot.takenOn.add(node);
    if (ballot.takenOn.size < quorum) return;
    drop(ballot);
    tell({ kind: 'lost', key: ballot.key, id: ballot.holder });
  }
}
