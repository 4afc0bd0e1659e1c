/**
 * The lease that this process has of one lock in the store, and the callers on it: writers one after another, readers side by side.
 * The base class in guarded-lease.ts says until when the lease can be trusted and how it ends. All of its state changes in these
 * two files, or in that of a lease on a permit, and nowhere else.
 *
 *     unused ──(admit)──▶ used by one writer or by readers ──(leave)──▶ unused: the keeper hands it on or gives it back
 */
import type { ReleaseEnded } from '../port/lease.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant, RenewRequest } from '../port/lock-store.js';
import type { DoubtfulRelease } from './background-release.js';
import { GuardedLease } from './guarded-lease.js';
import type { GrantedRequest, LeaseGuard, LossListener } from './lease-guard.js';

/** How long callers of one process may follow each other on a lease while other processes wait, in ms after its grant. */
export const HAND_ON_WINDOW_MS = 50;
/** When the store last answered longer ago than this, in ms, the lease is not handed on: the wake of a new waiter may have been lost. */
const NEWS_STALE_AFTER_MS = 1_000;
/** A lease with less trust left, in ms, is not handed on: the next caller gets a new one. Of a short lease a quarter must be left. */
const MIN_TRUST_TO_HAND_ON_MS = 500;

/** The queue of callers to which a lease belongs. */
export interface LeaseKeeper extends LossListener {
  /** A caller has left the lease. The keeper hands it on or gives it back, and calls `done` with how the caller's hold ended. */
  callerLeft(lease: StoreLease, done: ReleaseEnded): void;
  /** The lease went to a ticket: this process does not have it any more. */
  leaseHandedOff(lease: StoreLease): void;
  /** The lease may admit a caller now that it could not admit before. */
  leaseChanged(): void;
}

export class StoreLease extends GuardedLease implements DoubtfulRelease {
  /** The fence of the caller that was admitted last. Readers share one. */
  fence: number;
  /** How many callers are on the lease now, and how many have ever been admitted to it. */
  users = 0;
  turns = 0;
  /** When the last caller was admitted. */
  admittedAt: number;
  /** When the last caller left it, which is the instant at which its release is asked for. */
  askedAt: number | undefined;
  /** How long the store may keep it without a further request, in ms, its grace included. */
  storeLengthMs: number;
  /** Whether the work of its last caller never began, or it never had one: then the lock need not stay taken for minHoldMs. */
  abandoned = true;
  /** The holder id of the ticket that was adopted to get this lease; undefined for a lease that was granted to a request. */
  readonly ticketId: string | undefined;
  declare protected readonly keeper: LeaseKeeper;
  /** How many of the callers on the lease have held it for longer than their maxHoldMs. */
  private overdueUsers = 0;
  /** Whether no further caller may be put on it, because its end (minHoldMs) or its mode (a downgrade) belongs to one hold. */
  private isSpent = false;
  private nextFence: number;
  /** Whether all callers have the same fence. The mode that was asked for decides it, because for a read lease only one was reserved. */
  private readonly sharesFence: boolean;

  constructor(
    request: GrantedRequest,
    grant: Grant,
    grantedAt: number,
    keeper: LeaseKeeper,
    guard: LeaseGuard,
    /** The number of the last caller that waited when this phase of reading began. Readers up to it may join while a writer waits. */
    private readonly phase: number,
  ) {
    super(request, grant, grantedAt, keeper, guard);
    this.admittedAt = grantedAt;
    this.fence = this.nextFence = grant.fence;
    this.sharesFence = request.options.mode === 'read';
    this.ticketId = request.ticketId;
    const { leaseMs, minHoldMs, graceMs } = this.options;
    this.storeLengthMs = Math.max(leaseMs, minHoldMs) + graceMs;
  }

  /**
   * Whether it was taken with minHoldMs for work that never began. Its release must say so, which a request that replaces it
   * cannot: the next caller would wait for a minHoldMs that nobody owes.
   */
  get owesNothing(): boolean {
    return this.abandoned && this.isSpent;
  }

  /** How many fences it had if all of them were used, else 0. */
  get usedUpFences(): number {
    return this.hasFences ? 0 : this.grant.fences;
  }

  /**
   * Whether a caller with these options may be put on the lease now; if not, the store must be asked. `handOn` is the module
   * option, and `arrival` the number of the caller in its line if it waits.
   */
  admits(wanted: ResolvedOptions, now: number, handOn: number, arrival = Infinity): boolean {
    if (!this.isTrusted(now) || (wanted !== this.options && !mayShareLease(wanted, this.options))) return false;
    if (this.turns === 0) return true;
    if (this.isSpent || !this.options.renew || wanted.minHoldMs > 0) return false;
    const leftMs = this.trustedUntil - now;
    // The lease must end within the caller's maxHoldMs, so that a caller that hangs does not keep the lock for longer.
    if (leftMs > wanted.maxHoldMs || leftMs < Math.min(this.options.leaseMs / 4, MIN_TRUST_TO_HAND_ON_MS)) return false;
    if (now - this.heardAt >= NEWS_STALE_AFTER_MS) return false;
    // Readers join at any time; while a writer waits anywhere, only those that had waited when this phase of reading began.
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

  /** A holder may ask for more than its leaseMs, and the store then keeps the lease for longer. */
  override renewal(now: number, leaseMs?: number): RenewRequest {
    const request = super.renewal(now, leaseMs);
    this.storeLengthMs = Math.max(this.storeLengthMs, request.leaseMs + this.options.graceMs);
    return request;
  }

  /** Takes a caller off the lease, so that it is not told of a later loss. `abandoned`: its work never began. */
  leave(caller: LossListener, now: number, done: ReleaseEnded, abandoned = false): void {
    this.users -= 1;
    this.isGathered = false;
    this.askedAt = now;
    this.abandoned = abandoned;
    if (now >= this.trustedUntil) this.endTrust();
    this.offLoss(caller);
    this.keeper.callerLeft(this, done);
  }

  /** Takes a caller off the lease because its hold goes to a ticket. Whether others of this process stay on the lease. */
  handOff(caller: LossListener): boolean {
    this.users -= 1;
    this.offLoss(caller);
    if (this.users === 0) {
      this.letGo();
      this.keeper.leaseHandedOff(this);
    } else this.loseIfOverdue();
    return this.users > 0;
  }

  /** Counts a caller that has held the lease for longer than its maxHoldMs. When only such callers are on it, it is lost. */
  addOverdue(): void {
    this.overdueUsers += 1;
    this.loseIfOverdue();
  }

  /** Stops counting an overdue caller, which is about to leave. */
  removeOverdue(): void {
    this.overdueUsers -= 1;
  }

  /** Loses the lease when every caller on it has held it for longer than its maxHoldMs. */
  loseIfOverdue(): void {
    if (this.overdueUsers > 0 && this.overdueUsers === this.users) this.lose('it was held longer than maxHoldMs');
  }

  /** Called for one of several locks that a caller wants: until {@link begin} the lease is renewed, whatever the options say. */
  gather(now: number): void {
    if ((this.options.renew && this.renewUntil === Infinity) || !this.isHeld) return;
    // With other callers on it the lease is one that readers share, which is renewed anyhow.
    this.isGathered = this.users === 1;
    this.renewUntil = Infinity;
    this.guard.watch(this, now);
  }

  /** The caller has all of its locks: maxHoldMs counts from now. The caller renews a lease of fixed length once, so that it begins now. */
  begin({ maxHoldMs }: ResolvedOptions, now: number): void {
    this.isGathered = false;
    this.admittedAt = now;
    if (this.users === 1) this.renewUntil = now + maxHoldMs;
  }

  /** Notes that the store has turned it into a read lease. */
  downgraded(): void {
    this.mode = 'read';
    this.keeper.leaseChanged();
  }

  /** Admits no further caller, because its mode in the store is about to belong to the hold that downgrades it. */
  spend(): void {
    this.isSpent = true;
  }

  protected get hasFences(): boolean {
    return this.nextFence < this.grant.fence + this.grant.fences;
  }
}

/** Whether the requests of two callers to the store would be the same, so that one may take over the other's place in the queue. */
export function askTheSame(a: ResolvedOptions, b: ResolvedOptions): boolean {
  if (a === b) return true;
  const sameLease = Math.min(a.leaseMs, a.maxHoldMs) === Math.min(b.leaseMs, b.maxHoldMs);
  return mayShareLease(a, b) && sameLease && a.minHoldMs === b.minHoldMs;
}

/** Whether two callers may follow each other on one lease, because they want the same of it. */
function mayShareLease(a: ResolvedOptions, b: ResolvedOptions): boolean {
  return a.mode === b.mode && a.leaseMs === b.leaseMs && a.renew === b.renew && a.graceMs === b.graceMs && a.minReplicas === b.minReplicas && a.owner === b.owner && a.permits === b.permits;
}
