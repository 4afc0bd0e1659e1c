/**
 * The watchdog renews leases, and declares a lease lost when its trust has ended, whether or not the store answers. There is one for each
 * lock module, and it uses the single timer of its schedule. It asks for each lease alone; the store sends what is asked for in one turn of
 * the event loop together.
 *
 * A lease is due for renewal after a third of its length; one from the queue, which is short at first, almost at once. A renewal
 * without an answer is tried again until trust ends.
 *
 * Two grants are renewed before they are leases: one with too little trust left (core/queue/store-request.ts, `lengthen`), and one that
 * replicas have to acknowledge (stores/redis/requests.ts, `confirmed`). A caller renews its hold by `Hold.renew`, which asks the watchdog.
 */
import type { Clock } from '../port/clock.js';
import type { LockStoreError } from '../port/errors.js';
import { type Doubt, likeLength, type LockStore, type RenewOutcome, type StoreCapabilities } from '../port/lock-store.js';
import { MachineSleep } from './machine-sleep.js';
import { Schedule } from './schedule.js';
import { StoreLease } from './store-lease.js';

/** A lease that is due within this part of its length is renewed together with one that is due now, so that commands fill up. */
const MAX_EARLY_PART = 1 / 24;
/** With one lease that is due, at most so many are renewed in all: as many as one command takes. */
const MAX_TOGETHER = 250;
/**
 * How soon after its grant a lease is renewed that is shorter than was asked for, as one from the queue is at first, in ms. From then on
 * an outage may last as long as for any other lease; a hold that ends before that pays nothing for it.
 */
const WHOLE_AFTER_MS = 30;
/** A lease of which less than this part is left is such a lease. Others have lost no more than their margin and the time of the way. */
const NEARLY_WHOLE = 3 / 4;
/** The longest and the shortest pause before a renewal without an answer is tried again, in ms, before it is spread by half to either side. */
const LONGEST_RETRY_MS = 500;
const SHORTEST_RETRY_MS = 20;
/** How many leases are looked at in one turn of the event loop when all are renewed: a hundred thousand must not stop it. */
const LOOKED_AT_TOGETHER = 1_000;
/** How many leases are sorted together by the command that they can share: in a Cluster, more leases sorted together need fewer commands. */
const SORTED_TOGETHER = 8_000;

export class Watchdog {
  readonly sleep = new MachineSleep(this.clock, (sleptMs) => this.clockJumped(sleptMs));
  readonly schedule = new Schedule(this.clock, (now) => void this.sleep.look(now));
  /** When it was heard last that the data of the store were rolled back to an earlier state. An answer from before that looks valid and is not. */
  private rolledBackAt = -Infinity;
  /** The renewals that are not answered yet. */
  private readonly renewals = new Set<Promise<unknown>>();
  /** Which locks can share a command; undefined where all can, so that each lease is renewed at its own time. */
  readonly groupOf = this.store.capabilities.groupOf;
  /** When leases of one group and of like length are due next. There is at most one entry for each group and length. */
  private readonly dueTimes = new Map<string, number>();

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly renewFailed: (lease: StoreLease, cause: LockStoreError) => void,
  ) {
    store.onDoubt?.((doubt) => this.reviewAll(doubt), () => this.leases());
  }

  /** Guards a lease from now on. The queue calls it in the same turn in which it learns of the grant, so no lease is ever unguarded. */
  watch(lease: StoreLease, now: number): void {
    const leftMs = lease.trustedUntil - now;
    if (leftMs < lease.lengthMs * NEARLY_WHOLE) return this.schedule.set(lease, now + Math.min(WHOLE_AFTER_MS, leftMs / 3));
    // The first renewal is spread at random, so that leases that were taken together are not all due at the same time.
    this.planRenewal(lease, now, (leftMs / 3) * (0.7 + 0.3 * Math.random()));
  }

  /**
   * Whether an answer says nothing certain of the present: the machine has slept since `sentAt`, so that trust would be counted too
   * long, or the data that it tells of may not be there any more. Then the request has to be made again. `trustFrom`: the instant from which
   * the trust counts, if that is earlier.
   */
  isStale(sentAt: number, now: number, trustFrom = sentAt): boolean {
    return this.sleep.look(now) > trustFrom || this.rolledBackAt > sentAt;
  }

  /**
   * Renews one lease now, to end `leaseMs` from now. Without `leaseMs` a lease that renews is renewed to its usual length, and one of
   * fixed length keeps its end: the store is only asked whether it still has it.
   */
  renewNow(lease: StoreLease, leaseMs?: number): Promise<RenewOutcome> {
    const sentAt = this.clock.now();
    const request = lease.renewal(sentAt, leaseMs);
    const renewal: Promise<RenewOutcome> = this.store.renew(request).then((outcome) => {
      this.renewals.delete(renewal);
      const isInDoubt = lease.endRenewal();
      this.answered(lease, outcome, request.leaseMs, sentAt);
      // The store may have forgotten it after the renewal and before the answer to it came.
      const isRolledBack = this.rolledBackAt > sentAt;
      if (isRolledBack || (isInDoubt && this.mayBeForgotten(lease))) this.review(lease, this.clock.now(), isRolledBack);
      return outcome;
    });
    this.renewals.add(renewal);
    return renewal;
  }

  /** Declares every lease lost: at the end of a shutdown the process gives up what it still holds without releasing it. */
  loseAll(why: string): void {
    for (const lease of this.leases()) lease.lose('shutdown', why);
  }

  /**
   * Does what is due at the time of a lease's appointment. When that lease is renewed, others are renewed with it that are due soon. In a
   * Cluster that could cost commands, so it is not done there.
   */
  due(lease: StoreLease, now: number): void {
    this.look(lease, now);
    if (this.groupOf) return;
    for (let n = 1, last = lease; n < MAX_TOGETHER && last.isRenewing; n++) {
      const { first, firstAt } = this.schedule;
      if (!(first instanceof StoreLease) || first.isRenewing || firstAt > now + first.lengthMs * MAX_EARLY_PART) return;
      this.look(first, now);
      last = first;
    }
  }

  /** Declares the lease lost if its trust has ended, else renews it. */
  private look(lease: StoreLease, now: number): void {
    // Whoever was just told of the loss of another lease may have released this one.
    if (lease.state !== 'held') return;
    if (now >= lease.trustedUntil) return lease.endTrust();
    const lookAt = lease.restsUntil(now);
    this.schedule.set(lease, lookAt ?? lease.trustedUntil);
    if (lookAt === undefined && lease.startRenewal()) void this.renewNow(lease);
  }

  /** All leases that are held: each of them has an appointment. */
  private leases(): StoreLease[] {
    return this.schedule.all().filter((item) => item instanceof StoreLease);
  }

  /** Renews what the store may have forgotten. Resolves when each of these renewals was answered. */
  private async reviewAll(doubt: Doubt): Promise<void> {
    if (doubt === 'rolled back') this.rolledBackAt = this.clock.now();
    await this.eachLease((lease, now) => (doubt !== 'some' || this.mayBeForgotten(lease)) && this.review(lease, now, doubt === 'rolled back'));
    await Promise.all(this.renewals);
  }

  /** Looks at everything that is held, in as many turns of the event loop as it takes, and mostly first at what is due first; resolves after the last. */
  private async eachLease(look: (lease: StoreLease, now: number) => unknown): Promise<void> {
    const leases = this.leases();
    while (leases.length > 0) {
      const sorted = inGroups(leases.splice(0, SORTED_TOGETHER), this.groupOf);
      while (sorted.length > 0) {
        const now = this.clock.now();
        for (const lease of sorted.splice(0, LOOKED_AT_TOGETHER)) look(lease, now);
        if (sorted.length + leases.length > 0) await new Promise<void>((resolve) => this.clock.nextTurn(resolve));
      }
    }
  }

  /** Renews a lease that the store may have forgotten, without waiting for its next renewal. */
  private review(lease: StoreLease, now: number, isRolledBack: boolean): void {
    if (!lease.isTrusted(now) || !lease.startReview(isRolledBack)) return;
    this.schedule.set(lease, lease.trustedUntil);
    void this.renewNow(lease);
  }

  mayBeForgotten(lease: StoreLease): boolean {
    return this.store.mayHaveForgotten?.(lease) === true;
  }

  /** The machine slept, or its wall clock was set: nobody knows which, so trust is shortened and the store is asked. */
  private clockJumped(sleptMs: number): void {
    for (const lease of this.leases()) lease.slept(sleptMs);
    void this.eachLease((lease, now) => this.look(lease, now));
  }

  private answered(lease: StoreLease, outcome: RenewOutcome, leaseMs: number, sentAt: number): void {
    if (lease.state !== 'held') return;
    const now = this.clock.now();
    switch (outcome.kind) {
      case 'lost':
        return lease.lose(this.mayBeForgotten(lease) ? 'forgotten' : 'gone', 'the store no longer knows it (it ended, an operator took it away, or the store lost its memory)');
      case 'renewed':
        if (this.sleep.look(now) > sentAt) return this.look(lease, now);
        lease.renewed(outcome, now, leaseMs);
        return this.planRenewal(lease, now, (lease.trustedUntil - now) / 3);
      case 'unknown': {
        lease.unanswered(outcome.lateUntil);
        this.renewFailed(lease, outcome.cause);
        this.planRenewal(lease, now, Math.min(lease.trustedUntil - now, pauseBefore(lease, now) * (0.5 + Math.random())));
      }
    }
  }

  /**
   * Plans when the lease is renewed next: in `inMs`. In a Cluster, where only locks of one group can share a command, it is planned for when
   * others of its group are due, if that is at most half of the time sooner: so over time a group is renewed together.
   */
  private planRenewal(lease: StoreLease, now: number, inMs: number): void {
    let at = now + inMs;
    if (this.groupOf) {
      const group = `${this.groupOf(lease.key)} ${likeLength(lease.lengthMs)}`;
      const known = this.dueTimes.get(group) ?? Infinity;
      if (known >= now + inMs / 2 && known <= at) at = known;
      this.dueTimes.set(group, at);
    }
    this.schedule.set(lease, at);
  }
}

/** The pause before a renewal is tried again: the less trust is left, the shorter, because the store may serve again just before its end. */
function pauseBefore({ lengthMs, trustedUntil }: StoreLease, now: number): number {
  return Math.max(SHORTEST_RETRY_MS, Math.min(LONGEST_RETRY_MS, lengthMs / 20, (trustedUntil - now) / 4));
}

/** Those that can share a command stand together. */
function inGroups(leases: StoreLease[], groupOf: StoreCapabilities['groupOf']): StoreLease[] {
  if (!groupOf) return leases;
  return leases.map((lease) => ({ lease, group: groupOf(lease.key) })).sort((one, other) => one.group - other.group).map(({ lease }) => lease);
}
