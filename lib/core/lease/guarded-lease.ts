/**
 * A lease as the watchdog sees it: until when this process may trust it, how it is renewed, and how it ends.
 *
 *                  ┌── renewed: its end moves
 *                  ▼ │
 *     granted ──▶ held ──▶ released    letGo(): the process gives it back, whatever the store will answer
 *                    └───▶ lost        lose(): it can no longer be trusted, and the holds on it are informed
 *
 * Two instants bound it. Until `trustedUntil` the process may believe that nobody else holds the lock; each renewal moves this
 * instant. `renewUntil` is the latest end that a renewal may set: the callers on the lease may not hold it for longer (maxHoldMs).
 */
import type { LockLostError } from '../port/errors.js';
import { lostError } from '../port/hold-errors.js';
import type { LockMode } from '../port/lock-mode.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant, HolderRef, RenewRequest } from '../port/lock-store.js';
import { Appointment } from './schedule.js';

/** Trust that ends at most this much before `renewUntil`, in ms, ends because of maxHoldMs: the difference is margin and travel time. */
const TRAVEL_MS = 15;

const NOBODY: readonly LossListener[] = [];

/** Called once when a lease is lost. */
export interface LossListener {
  leaseLost(error: LockLostError, lease: GuardedLease): void;
}

/** Renews leases and declares them lost in time: the watchdog. */
export interface LeaseGuard {
  /** The appointment of the lease is due: it is time to renew it, or its trust has ended. */
  due(lease: GuardedLease, now: number): void;
  /** Guards the lease from now on, or plans its next renewal anew. */
  watch(lease: GuardedLease, now: number): void;
  /** Guards the lease no longer. */
  forget(lease: GuardedLease): void;
}

export class GuardedLease extends Appointment implements HolderRef {
  /** The mode that the store granted. It may be stronger than what was asked for, when requests of one owner share a hold. */
  protected heldMode: LockMode;
  /** No renewal reaches beyond this instant. */
  protected renewUntil = Infinity;
  /** Whether its caller wants several locks and does not have all of them yet: until then it is renewed, whatever the options say. */
  protected isGathered = false;
  private state: 'held' | 'released' | 'lost' = 'held';
  private trustEnds: number;
  private othersWait: boolean;
  /** When the store last said whether others wait for the lock. */
  private lastNews: number;
  private renewing = false;
  private loss: LockLostError | undefined;
  private isGone = false;
  private listeners: readonly LossListener[] = NOBODY;

  constructor(
    readonly key: string,
    readonly id: string,
    /** The options of the caller for which the store was asked. */
    readonly options: ResolvedOptions,
    protected readonly grant: Grant,
    /** When this process learned of the grant. */
    protected readonly grantedAt: number,
    protected readonly guard: LeaseGuard,
  ) {
    super();
    this.heldMode = grant.mode;
    this.trustEnds = grant.trustedUntil;
    this.othersWait = grant.contended;
    this.lastNews = grantedAt;
  }

  get mode(): LockMode {
    return this.heldMode;
  }

  get trustedUntil(): number {
    return this.trustEnds;
  }

  /** Whether others wait for the lock, as far as this process has heard. */
  get contended(): boolean {
    return this.othersWait;
  }

  /** When the store last said whether others wait for the lock, in clock.now() time. */
  get heardAt(): number {
    return this.lastNews;
  }

  get isHeld(): boolean {
    return this.state === 'held';
  }

  get isReleased(): boolean {
    return this.state === 'released';
  }

  get isLost(): boolean {
    return this.state === 'lost';
  }

  /** Whether the store said that it does not know the lease, so that it need not be released any more. */
  get goneFromStore(): boolean {
    return this.isGone;
  }

  /** Whether a renewal has been started and not been answered yet. */
  get isRenewing(): boolean {
    return this.renewing;
  }

  /** Whether the watchdog keeps it alive; false for a lease of fixed length. */
  get renews(): boolean {
    return this.isGathered || this.options.renew;
  }

  /** The length of its renewals, in ms. */
  get lengthMs(): number {
    return this.isGathered ? Math.min(this.options.leaseMs, this.options.maxHoldMs) : this.options.leaseMs;
  }

  /** The listeners that are called when it is lost. */
  get followers(): readonly LossListener[] {
    return this.listeners;
  }

  isTrusted(now: number): boolean {
    return this.state === 'held' && now < this.trustEnds;
  }

  due(now: number): void {
    this.guard.due(this, now);
  }

  /** Notes that another process began to wait for the lock. */
  heardOfWaiter(): void {
    this.othersWait = true;
  }

  /** When the watchdog has to look at it, if the next renewal is planned for `at`: at the end of trust at the latest. */
  nextLook(at: number): number {
    return this.renews ? Math.min(at, this.trustEnds) : this.trustEnds;
  }

  /** Starts a renewal. False when one is under way already, or the lease is not renewed at all. */
  startRenewal(): boolean {
    if (this.renewing || !this.renews) return false;
    this.renewing = true;
    return true;
  }

  /**
   * When the watchdog should look again at a lease that it need not renew, because its trust reaches to `renewUntil` already;
   * undefined for every other lease. It looks again, because a caller that may hold the lock for longer can be put on the lease
   * meanwhile. The first renewal is always sent: it tells the store that the holder is alive.
   */
  looksAgain(now: number): number | undefined {
    if (this.renewing || !this.renews || this.lastNews <= this.grantedAt) return undefined;
    if (this.renewUntil - this.trustEnds > TRAVEL_MS) return undefined;
    return this.nextLook(now + Math.max(TRAVEL_MS, (this.trustEnds - now) / 3));
  }

  /** Notes that the store has answered the renewal. */
  endRenewal(): void {
    this.renewing = false;
  }

  /** The request that renews it to end `leaseMs` from now, but not after `renewUntil`. */
  renewal(now: number, leaseMs = this.lengthMs): RenewRequest {
    const { key, id, options } = this;
    return { key, id, leaseMs: Math.max(1, Math.min(leaseMs, Math.floor(this.renewUntil - now))), graceMs: options.graceMs, minReplicas: options.minReplicas };
  }

  /**
   * Notes that the store has renewed it. The new end is believed only as far as what was asked for, or what was trusted before: a
   * server whose clock was set back would report a later end, and take the lease away at once when its clock is corrected.
   */
  renewed(trustedUntil: number, contended: boolean, now: number, leaseMs: number): void {
    this.trustEnds = Math.min(trustedUntil, Math.max(this.trustEnds, now + leaseMs));
    this.othersWait = contended;
    this.lastNews = now;
  }

  /** Shortens the trust by the time that the machine slept: the lease in the store went on meanwhile. */
  slept(forMs: number): void {
    this.trustEnds -= forMs;
  }

  /** Ends it because the process gives the lock back: it is over from here on, whatever the store answers to the release. */
  letGo(): void {
    this.guard.forget(this);
    this.state = 'released';
    this.listeners = NOBODY;
  }

  /** Ends it as lost and calls its listeners. `reason` completes the sentence "Lock … was lost: …". */
  lose(reason: string): void {
    if (this.state !== 'held') return;
    this.guard.forget(this);
    this.state = 'lost';
    this.loss = lostError(this.key, reason);
    for (const listener of this.listeners) listener.leaseLost(this.loss, this);
    this.listeners = NOBODY;
  }

  /** Ends it as lost because the store said that it does not know it. */
  loseFromStore(reason: string): void {
    this.isGone = true;
    this.lose(reason);
  }

  /** Ends it as lost because its trust has ended. The reason says whether maxHoldMs, a fixed length or a missing renewal ended it. */
  endTrust(): void {
    const { renewUntil, trustEnds, options } = this;
    if (renewUntil - trustEnds <= options.leaseMs / 100 + TRAVEL_MS) return this.lose('it was held longer than maxHoldMs');
    this.lose(this.renews ? 'it could not be renewed in time' : 'its fixed lease ended');
  }

  /** Calls `listener` when the lease is lost; at once when it is lost already. */
  onLoss(listener: LossListener): void {
    if (this.loss) listener.leaseLost(this.loss, this);
    else this.listeners = [...this.listeners, listener];
  }

  offLoss(listener: LossListener): void {
    if (this.listeners.length > 0) this.listeners = this.listeners.filter((one) => one !== listener);
  }
}
