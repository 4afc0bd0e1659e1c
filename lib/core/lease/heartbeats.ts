/**
 * Keeps the places of this process's waiters in the store's queues: a heartbeat is sent for each waiter every
 * {@link HEARTBEAT_MS}, in batches. Its answer also brings a grant whose wake was lost.
 */
import type { Clock } from '../port/clock.js';
import type { HeartbeatOutcome, HolderRef, LockStore } from '../port/lock-store.js';
import { Appointment, type Schedule } from './schedule.js';

/** The time between two heartbeats of a waiter. The store removes a waiter after 2,500 ms without one, so two of them may get lost. */
const HEARTBEAT_MS = 700;
/** How many waiters are handed to the store at a time. The store splits them into commands. */
const LARGEST_BATCH = 250;

/** A request of this process that waits in the store's queue. */
export interface Waiter extends HolderRef {
  /** Receives the store's answer to each heartbeat of this waiter. */
  heartbeatAnswered(outcome: HeartbeatOutcome): void;
}

/** The heartbeats of one waiter. */
export class Pulse extends Appointment {
  constructor(
    readonly waiter: Waiter,
    private readonly beat: (pulse: Pulse, now: number) => void,
  ) {
    super();
  }

  due(now: number): void {
    this.beat(this, now);
  }
}

export class Heartbeats {
  private readonly duePulses: Pulse[] = [];
  private sending = false;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly schedule: Schedule,
  ) {}

  /** Sends heartbeats for the waiter from now on, until {@link stop} gets what this returns. `pulse`: what it returned before. */
  start(waiter: Waiter, pulse = new Pulse(waiter, this.beat)): Pulse {
    this.schedule.set(pulse, this.clock.now() + HEARTBEAT_MS);
    return pulse;
  }

  /** Sends no more of these heartbeats, and ignores answers that are still to come. */
  stop(pulse: Pulse): void {
    this.schedule.cancel(pulse);
  }

  private readonly beat = (pulse: Pulse, now: number): void => {
    this.schedule.set(pulse, now + HEARTBEAT_MS);
    this.duePulses.push(pulse);
    this.sendSoon();
  };

  /** Sends one batch in each turn of the event loop, so that a crowd of waiters does not block the loop. */
  private sendSoon(): void {
    if (this.sending) return;
    this.sending = true;
    this.clock.nextTurn(() => {
      this.sending = false;
      void this.send(this.duePulses.splice(0, LARGEST_BATCH));
      if (this.duePulses.length > 0) this.sendSoon();
    });
  }

  private async send(due: readonly Pulse[]): Promise<void> {
    const batch = due.filter((pulse) => this.schedule.has(pulse));
    if (batch.length === 0) return;
    const outcomes = await this.store.heartbeat(batch.map(({ waiter: { key, id } }) => ({ key, id })));
    batch.forEach((pulse, index) => {
      if (this.schedule.has(pulse)) pulse.waiter.heartbeatAnswered(outcomes[index]!);
    });
  }
}
