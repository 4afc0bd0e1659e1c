/**
 * Sends the heartbeats of this process's waiters, by which they keep their places in the store's queues, in batches. The answer also brings
 * a grant whose wake was lost. Each waiter knows when its next one is due.
 */
import type { Clock } from '../port/clock.js';
import type { HeartbeatOutcome, HolderRef, LockStore } from '../port/lock-store.js';

/** The time between two heartbeats of a waiter. The store removes a waiter after 2,500 ms without one, so two of them may get lost. */
export const HEARTBEAT_MS = 700;
/** How many waiters are handed to the store at a time. The store splits them into commands. */
const LARGEST_BATCH = 250;

/** A request of this process that waits in the store's queue. */
export interface Waiter extends HolderRef {
  /** Whether it still has its place, as far as is known. If not, no heartbeat is sent for it, and answers that are still to come do not count. */
  readonly hasPlace: boolean;
  /** Receives the store's answer to each heartbeat of this waiter. */
  heartbeatAnswered(outcome: HeartbeatOutcome): void;
}

export class Heartbeats {
  private readonly due: Waiter[] = [];
  private sending = false;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
  ) {}

  /** Sends a heartbeat of this waiter: one batch in each turn of the event loop, so that a crowd of waiters does not block the loop. */
  send(waiter: Waiter): void {
    this.due.push(waiter);
    this.sendSoon();
  }

  private sendSoon(): void {
    if (this.sending) return;
    this.sending = true;
    this.clock.nextTurn(() => {
      this.sending = false;
      void this.sendBatch(this.due.splice(0, LARGEST_BATCH));
      if (this.due.length > 0) this.sendSoon();
    });
  }

  private async sendBatch(due: readonly Waiter[]): Promise<void> {
    const batch = due.filter(({ hasPlace }) => hasPlace);
    if (batch.length === 0) return;
    const outcomes = await this.store.heartbeat(batch.map(({ key, id }) => ({ key, id })));
    batch.forEach((waiter, index) => {
      if (waiter.hasPlace) waiter.heartbeatAnswered(outcomes[index]!);
    });
  }
}
