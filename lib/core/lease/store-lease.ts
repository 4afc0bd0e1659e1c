/**
 * The lease that this process has of one lock in the store, and the callers on it. They follow each other on it, or share it
 * when they read; until when it can be trusted, and how it ends, stands in guarded-lease.ts. All of its state changes in
 * these two files and nowhere else.
 *
 *     unused ──(admit)──▶ used by one writer or by readers ──(leave)──▶ unused: the keeper hands it on or gives it back
 */
import type { ReleaseOutcome } from '../port/lease.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant } from '../port/lock-store.js';
import type { DoubtfulRelease } from './background-release.js';
import { GuardedLease, type LeaseGuard, type LossListener } from './guarded-lease.js';

/** While others wait, the callers of one process follow each other on a lease for about this long. */
const HAND_ON_WINDOW_MS = 50;
/** Without news for this long the store is asked whether others wait, because messages get lost. */
const NEWS_STALE_AFTER_MS = 1_000;
/** A lease with less trust left than this, or than a quarter of its length, is not handed on: the next caller gets a fresh one. */
const MIN_TRUST_TO_HAND_ON_MS = 500;

/** The queue of callers that a lease was asked for. */
export interface LeaseKeeper extends LossListener {
  /** A caller left it. The keeper hands it on or gives it back, and says how that ended for the caller. */
  callerLeft(lease: StoreLease, done: (outcome: ReleaseOutcome) => void): void;
  /** Somebody may be admitted who could not be admitted before. */
  leaseChanged(): void;
}

export class StoreLease extends GuardedLease implements DoubtfulRelease {
  /** The fence of whoever is on the lease: readers share one. */
  fence: number;
  /** How many callers are on the lease now, and how many turns the process has had on it. */
  users = 0;
  turns = 0;
  /** When the last caller was admitted. */
  admittedAt: number;
  /** When the last caller left it: its release is asked for then. */
  askedAt: number | undefined;
  /** The work of its last caller never began: the release owes no minHoldMs. */
  abandoned = false;
  declare protected readonly keeper: LeaseKeeper;
  /** How many callers on the lease have held it for longer than their maxHoldMs. */
  private overdueUsers = 0;
  /** Nobody else is put on it, because its end or its mode in the store belongs to one hold. */
  private isSpent = false;
  private nextFence: number;
  /** By what was asked for: a lease that turned out stronger has no more fences than were reserved. */
  private readonly sharesFence: boolean;

  constructor(
    key: string,
    id: string,
    options: ResolvedOptions,
    grant: Grant,
    grantedAt: number,
    /** The readers that had come by this arrival waited when its phase began. */
    private readonly phase: number,
    /** Local instant until which a request for it that was not answered may still act. */
    readonly lateUntil: number,
    keeper: LeaseKeeper,
    guard: LeaseGuard,
  ) {
    super(key, id, options, grant, grantedAt, guard, keeper);
    this.admittedAt = grantedAt;
    this.fence = this.nextFence = grant.fence;
    this.sharesFence = options.mode === 'read';
  }

  /** Its end in the store belongs to a hold that never began. Whoever followed by a yield would wait for its minHoldMs. */
  get owesNothing(): boolean {
    return this.abandoned && this.isSpent;
  }

  /** How many fences it had, when all of them were used; else 0. */
  get usedUpFences(): number {
    return this.hasFences ? 0 : this.grant.fences;
  }

  /**
   * Whether a caller with these options may be put on the lease now. When not, the store must be asked for it. `arrival`: of
   * a caller that waits.
   */
  admits(wanted: ResolvedOptions, now: number, handOn: number, arrival = Infinity): boolean {
    if (!this.isTrusted(now) || !areAlike(this.options, wanted)) return false;
    if (this.turns === 0) return true;
    if (this.isSpent || !this.options.renew || wanted.minHoldMs > 0) return false;
    const leftMs = this.trustedUntil - now;
    // A hung caller must not keep the lock for longer than it may: its lease has to end by then.
    if (leftMs > wanted.maxHoldMs || leftMs < Math.min(this.options.leaseMs / 4, MIN_TRUST_TO_HAND_ON_MS)) return false;
    if (now - this.heardAt >= NEWS_STALE_AFTER_MS) return false;
    // Readers join side by side; while a writer waits anywhere, only those that its phase lets in.
    if (this.options.mode === 'read') return !this.contended || arrival <= this.phase;
    if (this.users > 0 || handOn === 1 || !this.hasFences) return false;
    return !this.contended || (this.turns < handOn && now - this.grantedAt < HAND_ON_WINDOW_MS);
  }

  /** Puts a caller on the lease. */
  admit({ maxHoldMs, minHoldMs }: ResolvedOptions, now: number): void {
    const until = now + maxHoldMs;
    this.renewUntil = this.users === 0 ? until : Math.max(this.renewUntil, until);
    this.users += 1;
    this.turns += 1;
    this.admittedAt = now;
    if (minHoldMs > 0) this.isSpent = true;
    this.fence = this.nextFence;
    if (!this.sharesFence) this.nextFence += 1;
  }

  /**
   * A caller's time on it ends, and it is not told of a later loss. `abandoned`: its work never began. `wasOverdue`: it had
   * held it for too long.
   */
  leave(caller: LossListener, now: number, abandoned: boolean, wasOverdue: boolean, done: (outcome: ReleaseOutcome) => void): void {
    this.users -= 1;
    this.askedAt = now;
    this.abandoned = abandoned;
    if (wasOverdue) this.overdueUsers -= 1;
    if (now >= this.trustedUntil) this.endTrust();
    this.offLoss(caller);
    this.keeper.callerLeft(this, done);
  }

  /** A caller has held it for longer than its maxHoldMs. It is not kept for such callers alone. */
  addOverdue(): void {
    this.overdueUsers += 1;
    this.loseIfOverdue();
  }

  loseIfOverdue(): void {
    if (this.overdueUsers > 0 && this.overdueUsers === this.users) this.lose('it was held longer than maxHoldMs');
  }

  /** It is one of several locks that a caller wants: until {@link begin} it is kept, whatever the caller's terms are. */
  gather(now: number): void {
    const { renew, maxHoldMs } = this.options;
    if ((renew && maxHoldMs === Infinity) || !this.isHeld) return;
    // A fixed lease is nobody else's; one that readers share is renewed already.
    this.isGathered = this.users === 1;
    this.renewUntil = Infinity;
    this.guard.watch(this, now);
  }

  /** All locks are there: maxHoldMs counts from here. A lease of fixed length has to be renewed once more, to begin now. */
  begin({ maxHoldMs }: ResolvedOptions, now: number): void {
    this.isGathered = false;
    this.admittedAt = now;
    if (this.users === 1) this.renewUntil = now + maxHoldMs;
  }

  /** Only reading goes on in it. */
  downgraded(): void {
    this.mode = 'read';
    this.keeper.leaseChanged();
  }

  /** Nobody else is put on it, because its end or its mode in the store belongs to one hold. */
  spend(): void {
    this.isSpent = true;
  }

  private get hasFences(): boolean {
    return this.nextFence < this.grant.fence + this.grant.fences;
  }
}

/** Only callers whose requests to the store would be the same may take over a place in its queue from each other. */
export function askAlike(a: ResolvedOptions, b: ResolvedOptions): boolean {
  if (a === b) return true;
  const sameLease = Math.min(a.leaseMs, a.maxHoldMs) === Math.min(b.leaseMs, b.maxHoldMs);
  return areAlike(a, b) && sameLease && a.minHoldMs === b.minHoldMs;
}

/** Only callers that would have asked for the same thing may follow each other on a lease. */
function areAlike(a: ResolvedOptions, b: ResolvedOptions): boolean {
  if (a === b) return true;
  return a.mode === b.mode && a.leaseMs === b.leaseMs && a.renew === b.renew && a.minReplicas === b.minReplicas && a.owner === b.owner;
}
