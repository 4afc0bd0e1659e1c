/**
 * Keeps the places of this process's waiters in the store's queues: a heartbeat is sent for each waiter every
 * {@link HEARTBEAT_MS}, in batches. Its answer also brings a grant whose wake was lost.
 */
import type { Clock } from '../port/clock.js';
import type { HeartbeatOutcome, HolderRef, LockStore } from '../port/lock-store.js';
import { Appointment, type Schedule } from './schedule.js';

/** The time between two heartbeats of a waiter. The store removes a waiter after 2,500 ms without one, so two of them may get lost. */
const HEARTBEAT_MS = 700;
/** How many waiters one batch has at most. Each costs the server about 5 µs, so a batch keeps it busy for little more than 1 ms. */
const LARGEST_BATCH = 250;

/** A request of this process that waits in the store's queue. */
export abstract class Waiter extends Appointment implements HolderRef {
  abstract readonly key: string;
  abstract readonly id: string;
  protected abstract readonly heartbeats: Heartbeats;
  /** Called with the store's answer to each heartbeat of this waiter. */
  abstract heartbeatAnswered(outcome: HeartbeatOutcome): void;

  due(now: number): void {
    this.heartbeats.due(this, now);
  }
}

export class Heartbeats {
  private readonly dueWaiters: Waiter[] = [];
  private sending = false;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly schedule: Schedule,
  ) {}

  /** Sends heartbeats for the waiter from now on. */
  watch(waiter: Waiter): void {
    this.schedule.set(waiter, this.clock.now() + HEARTBEAT_MS);
  }

  /** Sends no more heartbeats for the waiter, and ignores answers that are still to come. */
  forget(waiter: Waiter): void {
    this.schedule.cancel(waiter);
  }

  due(waiter: Waiter, now: number): void {
    this.schedule.set(waiter, now + HEARTBEAT_MS);
    this.dueWaiters.push(waiter);
    this.sendSoon();
  }

  /** Sends one batch in each turn of the event loop, so that a crowd of waiters does not block the loop. */
  private sendSoon(): void {
    if (this.sending) return;
    this.sending = true;
    this.clock.nextTurn(() => {
      this.sending = false;
      void this.send(this.dueWaiters.splice(0, LARGEST_BATCH));
      if (this.dueWaiters.length > 0) this.sendSoon();
    });
  }

  private async send(due: readonly Waiter[]): Promise<void> {
    const batch = due.filter((waiter) => this.schedule.has(waiter));
    if (batch.length === 0) return;
    const outcomes = await this.store.heartbeat(batch.map(({ key, id }) => ({ key, id })));
    batch.forEach((waiter, index) => {
      if (this.schedule.has(waiter)) waiter.heartbeatAnswered(outcomes[index]!);
    });
  }
}
