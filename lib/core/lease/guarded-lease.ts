/**
 * A lease as the watchdog sees it: until when this process may trust it, how it is renewed, and how it ends.
 *
 *                  ┌── renewed: its end moves
 *                  ▼ │
 *     granted ──▶ held ──▶ released    letGo(): the process gives it back, whatever the store will answer
 *                    └───▶ lost        lose(): its trust has ended, and whoever works under it is told
 *
 * Two instants bound it. Until `trustedUntil` the process may believe that nobody else holds the lock: a renewal moves it.
 * `renewUntil` is the latest end that a renewal may set, because the callers on the lease may not hold it for longer
 * (maxHoldMs).
 */
import type { LockLostError } from '../port/errors.js';
import { lostError } from '../port/hold-errors.js';
import type { LockMode } from '../port/lock-mode.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant, HeldLease, HolderRef, RenewOutcome, RenewRequest } from '../port/lock-store.js';
import { Appointment } from './schedule.js';

/** Trust that ends so close to `renewUntil` ends because of maxHoldMs: the rest is margin and travel. */
const TRAVEL_MS = 15;

const NOBODY: readonly LossListener[] = [];

type Renewed = Extract<RenewOutcome, { kind: 'renewed' }>;

/** Told once when a lease is lost. */
export interface LossListener {
  leaseLost(error: LockLostError, lease: GuardedLease): void;
}

/** What renews leases and ends their trust in time. */
export interface LeaseGuard {
  due(lease: GuardedLease, now: number): void;
  watch(lease: GuardedLease, now: number): void;
  forget(lease: GuardedLease): void;
}

export class GuardedLease extends Appointment implements HolderRef, HeldLease {
  /** It may be stronger than what was asked for, when requests of one owner share a hold. */
  protected heldMode: LockMode;
  /** No renewal reaches beyond this instant. */
  protected renewUntil = Infinity;
  /** One of several locks that a caller still gathers: it is renewed meanwhile, whatever the caller's terms are. */
  protected isGathered = false;
  private state: 'held' | 'released' | 'lost' = 'held';
  private trustEnds: number;
  private othersWait: boolean;
  /** When the store last told us whether others wait. */
  private lastNews: number;
  private renewing = false;
  private loss: LockLostError | undefined;
  private isGone = false;
  private knownTo: string | undefined;
  private listeners: readonly LossListener[] = NOBODY;

  constructor(
    readonly key: string,
    readonly id: string,
    /** Of the caller that it was asked for. */
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
    this.knownTo = grant.memory;
  }

  get mode(): LockMode {
    return this.heldMode;
  }

  get trustedUntil(): number {
    return this.trustEnds;
  }

  get firstFence(): number {
    return this.grant.fence;
  }

  get fences(): number {
    return this.grant.fences;
  }

  get owner(): string | undefined {
    return this.options.owner;
  }

  get label(): string | undefined {
    return this.options.label;
  }

  get minHoldUntil(): number {
    return this.options.minHoldMs > 0 ? this.grantedAt + this.options.minHoldMs : -Infinity;
  }

  /** The memory of the store that knew it last. */
  get memory(): string | undefined {
    return this.knownTo;
  }

  /** Whether others wait for the lock, as far as this process has heard. */
  get contended(): boolean {
    return this.othersWait;
  }

  /** When this process last heard whether others wait. */
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

  /** The store itself said that it is gone: nothing is left to take back. */
  get goneFromStore(): boolean {
    return this.isGone;
  }

  /** A renewal is under way. */
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

  /** Who is told of its loss. */
  get followers(): readonly LossListener[] {
    return this.listeners;
  }

  isTrusted(now: number): boolean {
    return this.state === 'held' && now < this.trustEnds;
  }

  due(now: number): void {
    this.guard.due(this, now);
  }

  /** Somebody began to wait for the lock elsewhere. */
  heardOfWaiter(): void {
    this.othersWait = true;
  }

  /** When the watchdog has to look at it if its next renewal is due at `at`: no later than at the end of trust. */
  nextLook(at: number): number {
    return this.renews ? Math.min(at, this.trustEnds) : this.trustEnds;
  }

  /** Whether a renewal begins: not when one is under way. */
  startRenewal(): boolean {
    if (this.renewing || !this.renews) return false;
    this.renewing = true;
    return true;
  }

  /** The same when the store may have forgotten it: then a lease of fixed length is renewed too, for what is left of it. */
  startReview(): boolean {
    if (this.renewing) return false;
    this.renewing = true;
    return true;
  }

  /**
   * When to look again at a lease whose trust ends because its hold will, so that a renewal could add nothing; undefined for
   * every other. Until then a caller may be put on it who may hold it for longer. The first renewal is sent in any case: it
   * says that the holder lives.
   */
  looksAgain(now: number): number | undefined {
    if (this.renewing || !this.renews || this.lastNews <= this.grantedAt) return undefined;
    if (this.renewUntil - this.trustEnds > TRAVEL_MS) return undefined;
    return this.nextLook(now + Math.max(TRAVEL_MS, (this.trustEnds - now) / 3));
  }

  endRenewal(): void {
    this.renewing = false;
  }

  /** What the store is asked for to renew it, to `leaseMs` or its own length. */
  renewal(now: number, leaseMs = this.renews ? this.lengthMs : Math.floor(this.trustEnds - now)): RenewRequest {
    const { key, id, options } = this;
    return { key, id, leaseMs: Math.max(1, Math.min(leaseMs, Math.floor(this.renewUntil - now))), minReplicas: options.minReplicas, held: this };
  }

  /**
   * Its end moved. Believes no more than was asked for or had before: a server whose clock was set back keeps the lease for
   * as long as the step, and would take it away at once when its clock is set right.
   */
  renewed({ trustedUntil, contended, memory }: Renewed, now: number, leaseMs: number): void {
    if (memory !== undefined) this.knownTo = memory;
    this.trustEnds = Math.min(trustedUntil, Math.max(this.trustEnds, now + leaseMs));
    this.othersWait = contended;
    this.lastNews = now;
  }

  /** The machine slept, and leases did not. */
  slept(forMs: number): void {
    this.trustEnds -= forMs;
  }

  /** From here on it is not ours any more, whatever the store answers to the release. */
  letGo(): void {
    this.guard.forget(this);
    this.state = 'released';
    this.listeners = NOBODY;
  }

  lose(reason: string): void {
    if (this.state !== 'held') return;
    this.guard.forget(this);
    this.state = 'lost';
    this.loss = lostError(this.key, reason);
    for (const listener of this.listeners) listener.leaseLost(this.loss, this);
    this.listeners = NOBODY;
  }

  /** Lost because the store says so. */
  loseFromStore(reason: string): void {
    this.isGone = true;
    this.lose(reason);
  }

  /** Lost because its time is over. The reason says which time, so that nobody looks for a sick store in vain. */
  endTrust(): void {
    const { renewUntil, trustEnds, options } = this;
    if (renewUntil - trustEnds <= options.leaseMs / 100 + TRAVEL_MS) return this.lose('it was held longer than maxHoldMs');
    this.lose(this.renews ? 'it could not be renewed in time' : 'its fixed lease ended');
  }

  /** Tells `listener` when the lease is lost, at once if it is already. */
  onLoss(listener: LossListener): void {
    if (this.loss) listener.leaseLost(this.loss, this);
    else this.listeners = [...this.listeners, listener];
  }

  offLoss(listener: LossListener): void {
    if (this.listeners.length > 0) this.listeners = this.listeners.filter((one) => one !== listener);
  }
}
