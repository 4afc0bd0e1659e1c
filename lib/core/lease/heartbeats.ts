/**
 * Keeps the places of those who wait in the store's queues: each is heard of every {@link HEARTBEAT_MS}, in batches. The
 * answer also tells a grant whose message was lost.
 */
import type { Clock } from '../port/clock.js';
import type { HeartbeatOutcome, HolderRef, LockStore } from '../port/lock-store.js';
import { Appointment, type Schedule } from './schedule.js';

/** The store takes a place away after 2,500 ms of silence. */
const HEARTBEAT_MS = 700;
/** A place costs the server about 5 µs. */
const LARGEST_BATCH = 250;

/** Somebody who waits in the store's queue. */
export abstract class Waiter extends Appointment implements HolderRef {
  abstract readonly key: string;
  abstract readonly id: string;
  protected abstract readonly heartbeats: Heartbeats;
  /** Told at the latest one heartbeat after anything changed. */
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

  watch(waiter: Waiter): void {
    this.schedule.set(waiter, this.clock.now() + HEARTBEAT_MS);
  }

  forget(waiter: Waiter): void {
    this.schedule.cancel(waiter);
  }

  due(waiter: Waiter, now: number): void {
    this.schedule.set(waiter, now + HEARTBEAT_MS);
    this.dueWaiters.push(waiter);
    this.sendSoon();
  }

  /** One batch a turn of the event loop. */
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
