/**
 * The watchdog: renews what is due in batches, and declares a lease lost when its trust has ended, whether or not the store
 * answers. One for a whole process, on the schedule's single timer.
 *
 * A lease is due at a third of its length. A renewal that stays without an answer is tried again until trust ends;
 * a batch that fails holds up no other batch.
 */
import type { Clock } from '../port/clock.js';
import type { LockStoreError } from '../port/errors.js';
import type { LockStore, RenewOutcome } from '../port/lock-store.js';
import { DueLeases } from './due-leases.js';
import { MachineSleep } from './machine-sleep.js';
import { RenewalTimes } from './renewal-times.js';
import { Schedule } from './schedule.js';
import { GuardedLease, type LeaseGuard } from './guarded-lease.js';

/** Renewing 250 leases keeps a Redis busy for less than a millisecond. */
const LARGEST_BATCH = 250;
/** What is due within this part of the lease is renewed along, so that batches fill up. */
const EARLY = 1 / 24;
const LONGEST_RETRY_MS = 500;

export class Watchdog implements LeaseGuard {
  readonly schedule: Schedule;
  readonly sleep: MachineSleep;
  private readonly dueLeases = new DueLeases();
  /** Undefined where all leases can share a command: then each is renewed at its own time. */
  private readonly times: RenewalTimes | undefined;
  private sending = false;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly renewFailed: (lease: GuardedLease, cause: LockStoreError) => void,
  ) {
    const { groupOf } = store.capabilities;
    this.times = groupOf && new RenewalTimes(groupOf);
    this.sleep = new MachineSleep(clock, {
      slept: (forMs, now) => this.machineSlept(forMs, now),
      wallClockJumped: () => this.renewAll(),
    });
    this.schedule = new Schedule(clock, (now) => this.sleep.look(now));
  }

  /** Guards a lease from now on. Called before anything can await, so that no grant is ever unguarded. */
  watch(lease: GuardedLease, now: number): void {
    // Leases that were taken together come due apart, and stay so.
    const spread = 0.7 + 0.3 * Math.random();
    this.planRenewal(lease, now, ((lease.trustedUntil - now) / 3) * spread);
  }

  /** Stops guarding. Called before the release is sent: answers of renewals under way are ignored from here on. */
  forget(lease: GuardedLease): void {
    this.schedule.cancel(lease);
  }

  /** Renews one lease now, to `leaseMs` or its own length. */
  async renewNow(lease: GuardedLease, leaseMs = lease.lengthMs): Promise<RenewOutcome> {
    const sentAt = this.clock.now();
    const [outcome] = await this.store.renew([lease.renewal(sentAt, leaseMs)]);
    this.answered(lease, outcome!, leaseMs, sentAt);
    return outcome!;
  }

  /** Ends every lease's trust now: the process gives up what it still holds without releasing it. */
  loseAll(reason: string): void {
    for (const lease of this.leases()) lease.lose(reason);
  }

  due(lease: GuardedLease, now: number): void {
    if (now >= lease.trustedUntil) return lease.endTrust();
    const lookAt = lease.looksAgain(now);
    this.schedule.set(lease, lookAt ?? lease.trustedUntil);
    if (lookAt !== undefined || !lease.startRenewal()) return;
    this.dueLeases.add(lease, lease.renewal(now).leaseMs);
    this.sendSoon();
  }

  /** Every lease that is held has an appointment. */
  private leases(): GuardedLease[] {
    return this.schedule.all().filter((item) => item instanceof GuardedLease);
  }

  private renewAll(): void {
    const now = this.clock.now();
    for (const lease of this.leases()) this.due(lease, now);
  }

  private machineSlept(forMs: number, now: number): void {
    const leases = this.leases();
    for (const lease of leases) lease.slept(forMs);
    for (const lease of leases) this.due(lease, now);
  }

  /** One batch of each length a turn of the event loop: a hundred thousand leases must not keep it from anything else. */
  private sendSoon(): void {
    if (this.sending) return;
    this.sending = true;
    this.clock.nextTurn(() => {
      this.sending = false;
      this.joinEarly();
      for (const batch of this.dueLeases.take(LARGEST_BATCH)) void this.renewBatch(batch);
      if (this.dueLeases.any) this.sendSoon();
    });
  }

  private joinEarly(): void {
    if (!this.dueLeases.any || this.times) return;
    const now = this.clock.now();
    for (let next = this.schedule.peek(); next instanceof GuardedLease && !this.dueLeases.fill(LARGEST_BATCH); next = this.schedule.peek()) {
      if (next.isRenewing || next.at > now + next.lengthMs * EARLY) return;
      this.due(next, now);
      if (!next.isRenewing) return;
    }
  }

  private async renewBatch(due: readonly GuardedLease[]): Promise<void> {
    const batch = due.filter(({ isHeld }) => isHeld);
    if (batch.length === 0) return;
    const sentAt = this.clock.now();
    const outcomes = await this.store.renew(batch.map((lease) => lease.renewal(sentAt)));
    batch.forEach((lease, index) => {
      lease.endRenewal();
      this.answered(lease, outcomes[index]!, lease.lengthMs, sentAt);
    });
  }

  private answered(lease: GuardedLease, outcome: RenewOutcome, leaseMs: number, sentAt: number): void {
    if (!lease.isHeld) return;
    const now = this.clock.now();
    switch (outcome.kind) {
      case 'lost':
        return lease.loseFromStore('the store no longer knows it (it ended, an operator took it away, or the store lost its memory)');
      case 'renewed':
        if (this.sleep.happenedSince(sentAt, now)) return this.due(lease, now);
        lease.renewed(outcome.trustedUntil, outcome.contended, now, leaseMs);
        return this.planRenewal(lease, now, (lease.trustedUntil - now) / 3);
      case 'unknown': {
        this.renewFailed(lease, outcome.cause);
        const retryMs = Math.min(LONGEST_RETRY_MS, lease.lengthMs / 20) * (0.5 + Math.random());
        this.schedule.set(lease, lease.nextLook(now + retryMs));
      }
    }
  }

  private planRenewal(lease: GuardedLease, now: number, inMs: number): void {
    const at = this.times ? this.times.next(lease, now, inMs) : now + inMs;
    this.schedule.set(lease, lease.nextLook(at));
  }
}
