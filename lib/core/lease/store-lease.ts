/**
 * The lease that this process has of one lock in the store: until when the process may trust it, how it is renewed, who is on it,
 * and how it ends.
 *
 *                  ┌── renewed: its end moves
 *                  ▼ │
 *     granted ──▶ held ──▶ released    letGo(): the process gives it back, whatever the store will answer
 *                    └───▶ lost        lose(): it can no longer be trusted, and the holds on it are informed
 *
 *     while it is held: unused ──(admit)──▶ used by one writer or by readers ──(leave)──▶ unused: the keeper hands it on or gives it back
 *
 * Two instants bound it. Until `trustedUntil` the process may believe that nobody else holds the lock; each renewal moves this
 * instant. `renewUntil` is the latest end that a renewal may set: the callers on the lease may not hold it for longer (maxHoldMs).
 */
import type { LockLostError, LossReason } from '../port/errors.js';
import { lostError } from '../port/hold-errors.js';
import type { ReleaseOutcome } from '../port/lease.js';
import type { LockMode, ResolvedOptions } from '../port/lock-options.js';
import { NO_MEMORY, type Grant, type HeldLease, type HolderRef, type RenewOutcome, type RenewRequest } from '../port/lock-store.js';
import type { Appointment } from './schedule.js';
import type { Watchdog } from './watchdog.js';

/** How long callers of one process may follow each other on a lease while other processes wait, in ms after its grant. */
export const HAND_ON_WINDOW_MS = 50;
/** When the store last answered longer ago than this, in ms, the lease is not handed on: the wake of a new waiter may have been lost. */
const NEWS_STALE_AFTER_MS = 1_000;
/** A lease with less trust left, in ms, is not handed on: the next caller gets a new one. Of a short lease a quarter must be left. */
const MIN_TRUST_TO_HAND_ON_MS = 500;

/** How much earlier than `renewUntil` a trust may end that reaches to it, in ms, beside the margin of the renewal: the time of the way to the store. */
const TRAVEL_MS = 15;

const NO_LISTENERS: readonly LossListener[] = [];

type Renewed = Extract<RenewOutcome, { kind: 'renewed' }>;

/** The request that brought a lease. */
interface GrantedRequest extends HolderRef {
  /** The options of the caller for which the store was asked. */
  readonly options: ResolvedOptions;
  readonly leaseMs: number;
  /** The local instant until which a try of it that got no answer may still act in the store. */
  readonly lateUntil: number;
  /** True if a message told that another process waits. */
  readonly isContended: boolean;
  /** The holder id of the ticket that was adopted to get the lease; undefined for a request that was granted. */
  readonly ticketId?: string | undefined;
}

/** Hears once of the loss of a lease. */
interface LossListener {
  leaseLost(error: LockLostError, lease: StoreLease): void;
  /** True if it is on this lease and has held it for longer than its maxHoldMs. */
  isOverdueOn?(lease: StoreLease): boolean;
}

/** A user of a lease: a hold. It is told either that the lease was lost, or how its release ended. */
export interface LeaseUser extends LossListener {
  /** The lease that it has left was handed on or given back, with this outcome. */
  leaseReleased(outcome: ReleaseOutcome): void;
}

/** The user that left a lease last, as far as its release concerns it. */
export type LastUser = Pick<LeaseUser, 'leaseReleased'>;

/** The queue of callers to which a lease belongs. */
export interface LeaseKeeper {
  /** A user has left the lease. The keeper hands it on or gives it back, and tells the user how that ended. */
  userLeft(lease: StoreLease, user: LeaseUser): void;
  /** The lease was lost, went to a ticket, or can admit callers that it could not admit before: its queue looks at it again. */
  leaseChanged(lease: StoreLease): void;
}

/** Every file may read the state of a lease, and only this class writes it: test/architecture.test.ts checks that. */
export class StoreLease implements Appointment, HeldLease {
  index = -1;
  /**
   * The list of this lease alone, with which each of its callers is served. It is no literal, because V8 allocates literals in the old generation
   * once most of those from one place have survived a collection, as all do while code is not optimized. There the list would keep the lease
   * and what belongs to it until the next full collection.
   */
  readonly alone: readonly StoreLease[] = Array.of<StoreLease>(this);
  readonly key: string;
  readonly id: string;
  /** The options of the caller for which the store was asked. */
  readonly options: ResolvedOptions;
  /** The mode that the store granted. It may be stronger than what was asked for, when requests of one owner share a hold. */
  mode: LockMode;
  /** Local instant until which nobody else holds the lock, as far as this process may believe. */
  trustedUntil: number;
  /** True when others wait for the lock, as far as this process has heard. */
  contended: boolean;
  /** True if a message told of a waiter since the last renewal was sent: an answer that knows of none is older than that. */
  private hasNewWaiter = false;
  /** When the store last said whether others wait for the lock, in clock.now() time. */
  heardAt: number;
  /** The memory of the store that knew it last. */
  memory: string | undefined;
  /** Local instant until which a request of this process that got no answer may still act for it in the store. */
  lateUntil: number;
  /** No renewal reaches beyond this instant. */
  private renewUntil = Infinity;
  /**
   * True when the watchdog keeps it alive; false for a lease of fixed length. While its caller wants several locks and does not have all of
   * them, it is renewed, whatever the options say.
   */
  renews: boolean;
  /** The length of its renewals, in ms. */
  readonly lengthMs: number;
  /** True when the last renewal got no answer: then the store is asked again, also about a lease of fixed length. */
  private isUnanswered = false;
  /** A renewal has been started and not been answered yet (`yes`); the store may have forgotten the lease meanwhile (`in doubt`). */
  private renewing: 'no' | 'yes' | 'in doubt' = 'no';
  state: 'held' | 'released' | 'lost' = 'held';
  /** True if a message said that an operator took the lock away. */
  private isForced = false;
  /** Why it was lost. */
  loss: LockLostError | undefined;
  /** They are called when it is lost. */
  listeners: readonly LossListener[] = NO_LISTENERS;

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
  /** True when the work of its last caller never began, or it never had one: then the lock need not stay taken for minHoldMs. */
  abandoned = true;
  /** The holder id of the ticket that was adopted to get this lease; undefined for a lease that was granted to a request. */
  readonly ticketId: string | undefined;
  /** True when no further caller may be put on it, because its end (minHoldMs) or its mode (a downgrade) belongs to one hold. */
  private isSpent = false;
  private nextFence: number;

  constructor(
    { key, id, options, leaseMs, lateUntil, isContended, ticketId }: GrantedRequest,
    readonly grant: Grant,
    /** When this process learned of the grant. */
    private readonly grantedAt: number,
    private readonly keeper: LeaseKeeper,
    private readonly watchdog: Watchdog,
    /** The number of the last caller that waited when this phase of reading began. Readers up to it may join while a writer waits. */
    private readonly lastOfPhase: number,
  ) {
    const { renew, minHoldMs, graceMs } = options;
    this.key = key;
    this.id = id;
    this.options = options;
    this.lateUntil = lateUntil;
    this.ticketId = ticketId;
    this.renews = renew;
    this.lengthMs = leaseMs;
    this.mode = grant.mode;
    this.trustedUntil = grant.trustedUntil;
    this.contended = grant.contended || isContended;
    this.heardAt = this.admittedAt = grantedAt;
    this.memory = grant.memory;
    this.fence = this.nextFence = grant.fence;

    this.storeLengthMs = Math.max(leaseMs, minHoldMs) + graceMs;
    this.loss = this.askedAt = undefined;
  }

  get minHoldUntil(): number {
    return this.options.minHoldMs > 0 ? this.grantedAt + this.options.minHoldMs : -Infinity;
  }

  isTrusted(now: number): boolean {
    return this.state === 'held' && now < this.trustedUntil;
  }

  /**
   * True if a caller with these options may be put on the lease now; if not, the store must be asked. `handOn` is the module
   * option, and `arrival` the number of the caller in its line if it waits. The first caller is the one for which it was granted.
   */
  admits(wanted: ResolvedOptions, now: number, handOn: number, arrival = Infinity): boolean {
    if (!this.isTrusted(now) || (wanted !== this.options && !mayShareLease(wanted, this.options))) return false;
    if (this.turns === 0) return true;
    if (!this.lastsFor(wanted, now)) return false;
    // Readers join at any time; while a writer waits anywhere, only those that had waited when this phase of reading began.
    if (this.options.mode === 'read') return !this.contended || arrival <= this.lastOfPhase;
    // The lease of a permit has a single fence.
    if (this.users > 0 || handOn === 1 || !this.hasFences) return false;
    return !this.contended || (this.turns < handOn && now - this.grantedAt < HAND_ON_WINDOW_MS);
  }

  /** True if a further caller with options like those of the others could work under it: enough trust is left, and it belongs to no single hold. */
  lastsFor(wanted: ResolvedOptions, now: number): boolean {
    if (this.isSpent || !this.options.renew || wanted.minHoldMs > 0) return false;
    const leftMs = this.trustedUntil - now;
    // The lease must end within the caller's maxHoldMs, so that a caller that hangs does not keep the lock for longer.
    if (leftMs > wanted.maxHoldMs || leftMs < Math.min(this.options.leaseMs / 4, MIN_TRUST_TO_HAND_ON_MS)) return false;
    return now - this.heardAt < NEWS_STALE_AFTER_MS;
  }

  /** True if fences are left that were reserved for it. */
  get hasFences(): boolean {
    return this.nextFence < this.grant.fence + this.grant.fences;
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
    // All callers who asked to read have the same fence, because only one was reserved for them.
    if (this.options.mode === 'write') this.nextFence += 1;
  }

  /** Keeps one of several locks that a caller wants: until {@link begin} the lease is renewed, whatever the options say. */
  gather(now: number): void {
    if ((this.options.renew && this.renewUntil === Infinity) || this.state !== 'held') return;
    this.renews = true;
    this.renewUntil = Infinity;
    this.watchdog.watch(this, now);
  }

  /** The caller has all of its locks: maxHoldMs counts from now. The caller renews a lease of fixed length once, so that it begins now. */
  begin({ maxHoldMs }: ResolvedOptions, now: number): void {
    this.renews = this.options.renew;
    this.admittedAt = now;
    if (this.users === 1) this.renewUntil = now + maxHoldMs;
  }

  /** Takes a user off the lease, so that it is not told of a later loss. `abandoned`: its work never began. */
  leave(user: LeaseUser, now: number, abandoned = false): void {
    if (now >= this.trustedUntil) this.endTrust();
    this.users -= 1;
    this.askedAt = now;
    // Under a hold that was adopted work has begun, in the process that handed it off.
    this.abandoned = abandoned && this.ticketId === undefined;
    // For most leases it is the only one.
    if (this.listeners.length === 1 && this.listeners[0] === user) this.listeners = NO_LISTENERS;
    else this.offLoss(user);
    this.keeper.userLeft(this, user);
  }

  /** Takes a caller off the lease because its hold goes to a ticket. Whether others of this process stay on the lease. */
  handOff(user: LossListener): boolean {
    this.users -= 1;
    this.offLoss(user);
    if (this.users === 0) {
      this.letGo();
      this.keeper.leaseChanged(this);
    } else this.loseIfOverdue();
    return this.users > 0;
  }

  /**
   * True if it was taken with minHoldMs for work that never began. Its release must say so, which a request that replaces it
   * cannot: the next caller would wait for a minHoldMs that nobody owes.
   */
  get waivesMinHold(): boolean {
    return this.abandoned && this.isSpent;
  }

  /** It reads from now on: readers elsewhere may begin before the store's answer is here. It admits no further caller, because its mode is that of one hold. */
  downgrade(): void {
    this.mode = 'read';
    this.isSpent = true;
    this.keeper.leaseChanged(this);
  }

  // What messages say of it.

  /** Notes that another process began to wait for the lock. */
  heardOfWaiter(): void {
    this.contended = this.hasNewWaiter = true;
  }

  /** Notes that an operator took the lock away, as a message says. The store is asked whether it is true. */
  heardOfForce(): void {
    this.isForced = true;
  }

  // Its renewal. The watchdog calls these.

  due(now: number): void {
    this.watchdog.due(this, now);
  }

  /** True while a renewal has been started and not been answered yet. */
  get isRenewing(): boolean {
    return this.renewing !== 'no';
  }

  /**
   * Until when the lease needs no renewal, because its trust reaches to `renewUntil` already. It is looked at again then, because a caller
   * that may hold the lock for longer can be put on it meanwhile. Undefined when it must be renewed now: each lease is renewed at least once,
   * so that the store knows that its holder lives, and after that only if a renewal could still move its end.
   */
  restsUntil(now: number): number | undefined {
    if (this.isRenewing || !this.renews || this.heardAt <= this.grantedAt) return undefined;
    if (this.renewUntil - this.trustedUntil > TRAVEL_MS) return undefined;
    return Math.min(this.trustedUntil, now + Math.max(TRAVEL_MS, (this.trustedUntil - now) / 3));
  }

  /** Starts a renewal. False when one is under way already, or the lease is not renewed at all. */
  startRenewal(): boolean {
    return (this.renews || this.isUnanswered) && !this.isRenewing && this.startReview();
  }

  /** Marks the lease as one to be renewed now, a lease of fixed length too. False when a renewal is under way, whose answer is in doubt then. */
  startReview(isRolledBack = false): boolean {
    if (isRolledBack) this.memory = NO_MEMORY;
    const starts = this.renewing === 'no';
    this.renewing = starts ? 'yes' : 'in doubt';
    return starts;
  }

  /**
   * The request that renews it to end `leaseMs` from now, but not after `renewUntil`. A lease that is not renewed keeps its end. A holder
   * may ask for more than its leaseMs, and the store then keeps the lease for longer.
   */
  renewal(now: number, leaseMs = this.renews ? this.lengthMs : Math.floor(this.trustedUntil - now)): RenewRequest {
    const { key, id, options: { graceMs, minReplicas } } = this;
    const request = { key, id, leaseMs: Math.max(1, Math.min(leaseMs, Math.floor(this.renewUntil - now))), graceMs, minReplicas, held: this };
    this.storeLengthMs = Math.max(this.storeLengthMs, request.leaseMs + graceMs);
    this.hasNewWaiter = false;
    return request;
  }

  /** Notes that the store has answered the renewal. Returns whether the answer is in doubt. */
  endRenewal(): boolean {
    const isInDoubt = this.renewing === 'in doubt';
    this.renewing = 'no';
    return isInDoubt;
  }

  /**
   * Notes that the store has renewed it. The new end is believed only as far as what was asked for, or what was trusted before: a
   * server whose clock was set back would report a later end, and take the lease away at once when its clock is corrected.
   */
  renewed({ trustedUntil, contended, memory }: Renewed, now: number, leaseMs: number): void {
    this.isUnanswered = false;
    if (memory !== undefined) this.memory = memory;
    this.trustedUntil = Math.min(trustedUntil, Math.max(this.trustedUntil, now + leaseMs));
    this.contended = contended || this.hasNewWaiter;
    this.heardAt = now;
  }

  /** Notes that the store did not answer a renewal, which may bring the lease back until this local instant. */
  unanswered(until = -Infinity): void {
    this.isUnanswered = true;
    this.lateUntil = Math.max(this.lateUntil, until);
  }

  /** Shortens the trust by the time that the machine slept: the lease in the store went on meanwhile. */
  slept(forMs: number): void {
    this.trustedUntil -= forMs;
  }

  // Its end.

  /** Ends it because the process gives the lock back: it is over from here on, whatever the store answers to the release. */
  letGo(): void {
    this.watchdog.schedule.cancel(this);
    this.state = 'released';
  }

  /**
   * Ends it as lost and calls its listeners. `why` completes the sentence "Lock … was lost: …". A lease that is gone from the store after
   * a message said that an operator took it away is told as that, whatever showed that it is gone.
   */
  lose(reason: LossReason, why: string): void {
    if (this.state !== 'held') return;
    this.watchdog.schedule.cancel(this);
    this.state = 'lost';
    const isForced = this.isForced && (reason === 'gone' || reason === 'forgotten');
    this.loss = isForced ? lostError(this.key, 'released-by-force', 'an operator took it away') : lostError(this.key, reason, why);
    this.keeper.leaseChanged(this);
    for (const listener of this.listeners) listener.leaseLost(this.loss, this);
  }

  /** Ends it as lost because its trust has ended. The reason says whether maxHoldMs, a fixed length or a missing renewal ended it. */
  endTrust(): void {
    const isEndOfMaxHold = this.renewUntil - this.trustedUntil <= this.options.leaseMs / 100 + TRAVEL_MS;
    if (isEndOfMaxHold) this.lose('max-hold', 'it was held longer than maxHoldMs');
    else this.lose('expired', this.renews ? 'it could not be renewed in time' : 'its fixed lease ended');
  }

  /** Loses the lease when every caller on it has held it for longer than its maxHoldMs. */
  loseIfOverdue(): void {
    const overdue = this.listeners.filter((one) => one.isOverdueOn?.(this));
    if (overdue.length === this.users) this.lose('max-hold', 'it was held longer than maxHoldMs');
  }

  /** Calls `listener` when the lease is lost; at once when it is lost already. */
  onLoss(listener: LossListener): void {
    if (this.loss) listener.leaseLost(this.loss, this);
    else this.listeners = this.listeners === NO_LISTENERS ? [listener] : [...this.listeners, listener];
  }

  offLoss(listener: LossListener): void {
    this.listeners = this.listeners.filter((one) => one !== listener);
  }
}

/** True if the requests of two callers to the store would be the same, so that one may take over the other's place in the queue. */
export function askTheSame(a: ResolvedOptions, b: ResolvedOptions): boolean {
  return a === b || (mayShareLease(a, b) && a.minHoldMs === b.minHoldMs);
}

/** True if two callers may follow each other on one lease, because they want the same of it. */
function mayShareLease(a: ResolvedOptions, b: ResolvedOptions): boolean {
  const sameLength = Math.min(a.leaseMs, a.maxHoldMs) === Math.min(b.leaseMs, b.maxHoldMs);
  return sameLength && a.mode === b.mode && a.renew === b.renew && a.graceMs === b.graceMs && a.minReplicas === b.minReplicas &&
    a.owner === b.owner && a.permits === b.permits;
}
