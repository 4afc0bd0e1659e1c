/**
 * Takes ballots back from nodes without anybody waiting for it: sent at once, and again to a node that gave no answer, until
 * it answers or until the lease it may have given has ended by itself. A vote that was asked for and not answered may still be
 * on its way when its withdrawal is answered: that one is sent again until the time of the vote is over.
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import type { DoubtfulRelease } from '../../core/lease/background-release.js';
import type { Leaving, Mark } from './node-vote.js';
import type { RedlockNode } from './redlock-node.js';

/** A vote that may stand on a node; the id is that of the ballot. */
export interface Withdrawal extends Leaving, DoubtfulRelease {
  readonly node: RedlockNode;
  /** Local instant at which it has ended by itself. */
  readonly until: number;
}

const UNWANTED: Mark = { mode: 'write', waitedMs: -1, patienceMs: 0 };
const RETRY_MS = 250;
/** As many in one turn are no burden to a node that comes back. */
const BATCH = 250;

export class Withdrawals {
  /** What has to be sent again. */
  private readonly unanswered = new Set<Withdrawal>();
  private timer: Timer | undefined;
  private closed = false;

  constructor(private readonly clock: Clock) {}

  add(withdrawal: Withdrawal): void {
    void this.send(withdrawal);
  }

  /** Nobody here waits for the lock any more: it should not be kept for this process. Where nobody hears it, marks end by themselves. */
  unmark(key: string, nodes: readonly RedlockNode[]): void {
    for (const node of nodes) if (node.connected) node.release({ key, id: '-', mark: UNWANTED }).catch(() => {});
  }

  /** Ends all tries; what is left ends with its lease. */
  close(): void {
    this.closed = true;
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.unanswered.clear();
  }

  private async send(withdrawal: Withdrawal): Promise<void> {
    const { node, until, lateUntil = -Infinity } = withdrawal;
    const sentAt = this.clock.now();
    try {
      await node.release(withdrawal);
      if (sentAt > lateUntil) return;
    } catch {
      // Still unknown.
    }
    if (this.closed || this.clock.now() >= until) return;
    this.unanswered.add({ ...withdrawal, mark: undefined }); // by then it waits no more, or has asked again
    this.timer ??= this.clock.setTimer(() => this.retry(), RETRY_MS);
  }

  private retry(): void {
    this.timer = undefined;
    const now = this.clock.now();
    let sent = 0;
    for (const withdrawal of this.unanswered) {
      const ended = now >= withdrawal.until;
      if (!ended && (!withdrawal.node.connected || sent >= BATCH)) continue;
      this.unanswered.delete(withdrawal);
      if (ended) continue;
      sent++;
      void this.send(withdrawal);
    }
    if (this.unanswered.size > 0) this.timer ??= this.clock.setTimer(() => this.retry(), RETRY_MS);
  }
}
