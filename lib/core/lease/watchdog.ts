/**
 * The watchdog: renews what is due in batches, declares a lease lost when its trust has ended, whether or not the store
 * answers, and keeps the places of those who wait. One for a whole process, on the schedule's single timer.
 *
 * A lease is due at a third of its length. A renewal that stays without an answer is tried again until trust ends;
 * a batch that fails holds up no other batch.
 */
import type { Clock } from '../port/clock.js';
import type { LockStoreError } from '../port/errors.js';
import { DueLeases } from './due-leases.js';
import type { HeldLease } from './held-lease.js';
import { IdTable } from './id-table.js';
import type { HeartbeatOutcome, HolderRef, LockStore, RenewOutcome } from '../port/lock-store.js';
import { RenewalTimes } from './renewal-times.js';
import { Appointment, Schedule } from './schedule.js';

/** Renewing 250 leases keeps a Redis busy for less than a millisecond. */
const LARGEST_BATCH = 250;
/** A waiter is heard of this often; the store takes its place away after 2,500 ms of silence. */
const HEARTBEAT_MS = 700;
/** What is due within this part of the lease is renewed along, so that batches fill up. */
const EARLY = 1 / 24;
/** A wall clock or a machine's sleep that is off by less than this is not worth a thought. */
const JUMP_MS = 1_000;

/** How long the machine has been up is read from a file: not more often than this, unless the wall clock shows a jump. */
const LOOK_MS = 250;
/** A trust that ends so close to renewUntil ends because of maxHoldMs: the rest is margin and travel. */
const LATEST_BEFORE_END_MS = 15;

/** Somebody who waits in the store's queue. */
export abstract class Waiter extends Appointment implements HolderRef {
  abstract readonly key: string;
  abstract readonly id: string;
  /** Told at the latest one heartbeat after anything changed. */
  abstract heartbeat(outcome: HeartbeatOutcome): void;
  onDue: ((waiter: Waiter) => void) | undefined;

  due(): void {
    this.onDue?.(this);
  }
}

export class Watchdog {
  readonly schedule: Schedule;
  private readonly dueLeases = new DueLeases();
  private readonly dueWaiters: Waiter[] = [];
  private readonly leases = new IdTable<HeldLease>();
  private readonly times: RenewalTimes;
  private sending = false;
  private lookedAt = -Infinity;
  /** When a sleep of the machine was last noticed. */
  private sleptAt = -Infinity;
  private asleepMs: number;
  private wallOffsetMs: number;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly renewFailed: (lease: HeldLease, cause: LockStoreError) => void,
  ) {
    this.asleepMs = clock.uptimeMs() - clock.now();
    this.wallOffsetMs = clock.wallNow() - clock.now();
    this.times = new RenewalTimes(store.capabilities.groupOf);
    this.schedule = new Schedule(clock, (now) => this.noticeJumps(now));
  }

  /** Guards a lease from now on. Called before anything can await, so that no grant is ever unguarded. */
  watch(lease: HeldLease): void {
    lease.onDue = this.onLeaseDue;
    this.leases.set(lease.id, lease);
    const now = this.clock.now();
    // Leases that were taken together come due apart, and stay so.
    const spread = 0.7 + 0.3 * Math.random();
    this.schedule.set(lease, this.renewalDue(lease, this.times.next(lease, now, ((lease.trustedUntil - now) / 3) * spread)));
  }

  /** Stops guarding. Called before the release is sent: answers of renewals under way are ignored from here on. */
  forget(lease: HeldLease): void {
    this.leases.delete(lease.id);
    this.schedule.cancel(lease);
  }

  watchWaiter(waiter: Waiter): void {
    waiter.onDue = this.onWaiterDue;
    this.schedule.set(waiter, this.clock.now() + HEARTBEAT_MS);
  }

  forgetWaiter(waiter: Waiter): void {
    this.schedule.cancel(waiter);
  }

  /** The lease with this holder id, while it is guarded. */
  find(id: string): HeldLease | undefined {
    return this.leases.get(id);
  }

  /** Renews one lease now, to `leaseMs` or its own length. */
  async renewNow(lease: HeldLease, leaseMs = lease.terms.leaseMs): Promise<RenewOutcome> {
    const { key, id } = lease;
    const sentAt = this.clock.now();
    const [outcome] = await this.store.renew([{ key, id, leaseMs: this.capped(lease, leaseMs), minReplicas: lease.terms.minReplicas }]);
    this.answered(lease, outcome!, leaseMs, sentAt);
    return outcome!;
  }

  /** Has every lease renewed at once. */
  renewAll(): void {
    for (const lease of this.leases.values()) if (lease.terms.renew && !lease.renewing) this.onLeaseDue(lease, this.clock.now());
  }

  /** Ends every lease's trust now: the process gives up what it still holds without releasing it. */
  loseAll(reason: string): void {
    for (const lease of this.leases.values()) this.lose(lease, reason);
  }

  /** By default because its time is over. */
  lose(lease: HeldLease, reason = whyOver(lease)): void {
    if (lease.state !== 'held') return;
    this.forget(lease);
    lease.lose(reason);
  }

  /** The monotonic clock stands still while the machine sleeps; leases do not. */
  noticeJumps(now = this.clock.now()): void {
    const wallOffsetMs = this.clock.wallNow() - now;
    const wallJumped = Math.abs(wallOffsetMs - this.wallOffsetMs) > JUMP_MS;
    if (!wallJumped && now - this.lookedAt < LOOK_MS) return;
    this.lookedAt = now;
    const asleepMs = this.clock.uptimeMs() - now;
    const sleptMs = asleepMs - this.asleepMs;
    if (sleptMs > JUMP_MS) {
      this.asleepMs = asleepMs;
      this.sleptAt = now;
      for (const lease of this.leases.values()) lease.trustedUntil -= sleptMs;
      for (const lease of this.leases.values()) this.onLeaseDue(lease, now);
    }
    if (wallJumped) {
      this.wallOffsetMs = wallOffsetMs;
      this.renewAll();
    }
  }

  /** Whether the machine slept after this instant: what was counted from it is worth too much. */
  sleptSince(instant: number): boolean {
    this.noticeJumps();
    return this.sleptAt > instant;
  }

  private readonly onLeaseDue = (lease: HeldLease, now: number): void => {
    if (now >= lease.trustedUntil) return this.lose(lease);
    this.schedule.set(lease, lease.trustedUntil);
    if (lease.renewing || !lease.terms.renew) return;
    if (endsWithItsHold(lease)) {
      // Until then another caller may be put on the lease, who may hold it for longer.
      const soonMs = Math.max(LATEST_BEFORE_END_MS, (lease.trustedUntil - now) / 3);
      return this.schedule.set(lease, this.renewalDue(lease, now + soonMs));
    }
    lease.renewing = true;
    this.dueLeases.add(lease, this.capped(lease, lease.terms.leaseMs));
    this.sendSoon();
  };

  private readonly onWaiterDue = (waiter: Waiter): void => {
    this.watchWaiter(waiter);
    this.dueWaiters.push(waiter);
    this.sendSoon();
  };

  /** One batch of each length a turn of the event loop: a hundred thousand leases must not keep it from anything else. */
  private sendSoon(): void {
    if (this.sending) return;
    this.sending = true;
    this.clock.nextTurn(() => {
      this.sending = false;
      this.joinEarly();
      for (const batch of this.dueLeases.take(LARGEST_BATCH)) void this.renewBatch(batch);
      if (this.dueWaiters.length > 0) void this.heartbeatBatch(this.dueWaiters.splice(0, LARGEST_BATCH));
      if (this.dueLeases.any || this.dueWaiters.length > 0) this.sendSoon();
    });
  }

  private joinEarly(): void {
    if (!this.dueLeases.any || this.times.areGrouped) return;
    const now = this.clock.now();
    for (let next = this.schedule.peek(); next && !this.dueLeases.fill(LARGEST_BATCH); next = this.schedule.peek()) {
      const lease = this.leases.get((next as Partial<HeldLease>).id ?? '');
      if (lease !== next || lease.renewing || lease.at > now + lease.terms.leaseMs * EARLY) return;
      this.onLeaseDue(lease, now);
      if (!lease.renewing) return;
    }
  }

  private async renewBatch(due: HeldLease[]): Promise<void> {
    const batch = due.filter((lease) => lease.state === 'held');
    if (batch.length === 0) return;
    const sentAt = this.clock.now();
    const outcomes = await this.store.renew(
      batch.map((lease) => ({
        key: lease.key,
        id: lease.id,
        leaseMs: this.capped(lease, lease.terms.leaseMs),
        minReplicas: lease.terms.minReplicas,
      })),
    );
    batch.forEach((lease, index) => {
      lease.renewing = false;
      this.answered(lease, outcomes[index]!, lease.terms.leaseMs, sentAt);
    });
  }

  private async heartbeatBatch(due: Waiter[]): Promise<void> {
    const batch = due.filter((waiter) => waiter.place >= 0);
    if (batch.length === 0) return;
    const outcomes = await this.store.heartbeat(batch.map(({ key, id }) => ({ key, id })));
    batch.forEach((waiter, index) => {
      if (waiter.place >= 0) waiter.heartbeat(outcomes[index]!);
    });
  }

  private answered(lease: HeldLease, outcome: RenewOutcome, leaseMs: number, sentAt: number): void {
    if (lease.state !== 'held' || !this.leases.get(lease.id)) return;
    const now = this.clock.now();
    if (outcome.kind === 'lost') {
      lease.goneFromStore = true;
      return this.lose(lease, 'the store no longer knows it (it ended, an operator took it away, or the store lost its memory)');
    }
    if (outcome.kind === 'renewed') {
      if (this.sleptSince(sentAt)) return this.onLeaseDue(lease, now);
      lease.renewed(outcome.trustedUntil, outcome.contended, now, leaseMs);
      return this.schedule.set(lease, this.renewalDue(lease, this.times.next(lease, now, (lease.trustedUntil - now) / 3)));
    }
    this.renewFailed(lease, outcome.cause);
    const retryMs = Math.min(500, lease.terms.leaseMs / 20) * (0.5 + Math.random());
    this.schedule.set(lease, this.renewalDue(lease, now + retryMs));
  }

  /** A fixed lease has no renewal, and none may come after the end of trust. */
  private renewalDue(lease: HeldLease, at: number): number {
    return lease.terms.renew ? Math.min(at, lease.trustedUntil) : lease.trustedUntil;
  }

  private capped(lease: HeldLease, leaseMs: number): number {
    return Math.max(1, Math.min(leaseMs, Math.floor(lease.renewUntil - this.clock.now())));
  }
}

/** Its trust ends because its hold will: a renewal could add nothing to it. The first one also says that its holder lives. */
function endsWithItsHold({ renewUntil, trustedUntil, grantedAt, heardAt }: HeldLease): boolean {
  return heardAt > grantedAt && renewUntil - trustedUntil <= LATEST_BEFORE_END_MS;
}

/** The trust in a lease ends a margin before its maxHoldMs does; who reads the error shall not look for a sick store. */
function whyOver({ renewUntil, trustedUntil, terms }: HeldLease): string {
  if (renewUntil - trustedUntil <= terms.leaseMs / 100 + LATEST_BEFORE_END_MS) return 'it was held longer than maxHoldMs';
  return terms.renew ? 'it could not be renewed in time' : 'its fixed lease ended';
}
