/**
 * Takes ballots back from nodes in the background. A withdrawal is sent at once, and again to a node that did not answer, until
 * the node answers or the lease it may have granted has ended by itself. A vote request that was not answered may still be on
 * its way when the withdrawal is answered: then the withdrawal is sent again until the limit of the vote request is over.
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import type { NodeSpot } from '../wire/redis-keys.js';
import { NO_MARK, type Leaving } from './node-vote.js';
import type { RedlockNode } from './redlock-node.js';

/** A vote that may stand on a node. Its id is that of the ballot. */
export interface Withdrawal extends Leaving {
  readonly node: RedlockNode;
  /** The local instant until which a request for the vote that got no answer may still act on the node. */
  readonly lateUntil?: number | undefined;
  /** The local instant at which the vote has ended by itself. */
  readonly until: number;
}

/** The pause before withdrawals without an answer are sent again, in ms. */
const SENDS_AGAIN_AFTER_MS = 250;
/** How many are sent again to a node in one turn: few enough to be no burden to a node that has just come back. */
const MAX_SENT_AGAIN_TOGETHER = 250;

export class Withdrawals {
  /** Withdrawals that were not answered and have to be sent again. */
  private readonly unanswered = new Set<Withdrawal>();
  private timer: Timer | undefined;
  private closed = false;

  constructor(private readonly clock: Clock) {}

  add(withdrawal: Withdrawal): void {
    const { lateUntil = -Infinity } = withdrawal;
    const sentAt = this.clock.now();
    withdrawal.node.release(withdrawal, ({ kind }) => {
      // Without an answer it is unknown whether the vote was taken back.
      if (kind === 'failure' || sentAt <= lateUntil) this.sendLater(withdrawal);
    });
  }

  /** Removes this process's mark, so that no node keeps the lock for a process in which nobody waits. Sent once: marks also end by themselves. */
  unmark(on: NodeSpot, nodes: readonly RedlockNode[]): void {
    for (const node of nodes) if (node.connected) node.release({ on, id: '-', mark: NO_MARK }, () => {});
  }

  /** Ends all further tries. Votes that still stand end with their leases. */
  close(): void {
    this.closed = true;
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.unanswered.clear();
  }

  private sendLater(withdrawal: Withdrawal): void {
    const { until } = withdrawal;
    if (this.closed || this.clock.now() >= until) return;
    // The mark is sent only once, because the waiter has given up or asked again by then.
    this.unanswered.add({ ...withdrawal, mark: undefined });
    this.timer ??= this.clock.setTimer(() => this.retry(), SENDS_AGAIN_AFTER_MS);
  }

  private retry(): void {
    this.timer = undefined;
    const now = this.clock.now();
    let sent = 0;
    for (const withdrawal of this.unanswered) {
      const ended = now >= withdrawal.until;
      if (!ended && (!withdrawal.node.connected || sent >= MAX_SENT_AGAIN_TOGETHER)) continue;
      this.unanswered.delete(withdrawal);
      if (ended) continue;
      sent++;
      this.add(withdrawal);
    }
    if (this.unanswered.size > 0) this.timer ??= this.clock.setTimer(() => this.retry(), SENDS_AGAIN_AFTER_MS);
  }
}
