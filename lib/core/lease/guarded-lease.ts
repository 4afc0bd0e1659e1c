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
import type { Grant, HolderRef, RenewRequest } from '../port/lock-store.js';
import { Appointment } from './schedule.js';

/** Trust that ends so close to `renewUntil` ends because of maxHoldMs: the rest is margin and travel. */
const TRAVEL_MS = 15;

const NOBODY: readonly LossListener[] = [];

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

/** Its state can be read everywhere, and only the lease itself writes it (test/architecture.test.ts looks). */
export class GuardedLease extends Appointment implements HolderRef {
  /** It may be stronger than what was asked for, when requests of one owner share a hold. */
  mode: LockMode;
  /** Local instant until which nobody else holds the lock, as far as this process may believe. */
  trustedUntil: number;
  /** Whether others wait for the lock, as far as this process has heard, and when it last heard so. */
  contended: boolean;
  heardAt: number;
  /** A renewal is under way. */
  isRenewing = false;
  /** No renewal reaches beyond this instant. */
  protected renewUntil = Infinity;
  /** One of several locks that a caller still gathers: it is renewed meanwhile, whatever the caller's terms are. */
  protected isGathered = false;
  private state: 'held' | 'released' | 'lost' = 'held';
  private loss: LockLostError | undefined;
  private isGone = false;
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
    /** The first to be told of its loss. */
    protected readonly keeper: LossListener,
  ) {
    super();
    this.mode = grant.mode;
    this.trustedUntil = grant.trustedUntil;
    this.contended = grant.contended;
    this.heardAt = grantedAt;
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

  /** Whether the watchdog keeps it alive; false for a lease of fixed length. */
  get renews(): boolean {
    return this.isGathered || this.options.renew;
  }

  /** The length of its renewals, in ms. */
  get lengthMs(): number {
    return this.isGathered ? Math.min(this.options.leaseMs, this.options.maxHoldMs) : this.options.leaseMs;
  }

  /** Who is told of its loss after its keeper. */
  get followers(): readonly LossListener[] {
    return this.listeners;
  }

  isTrusted(now: number): boolean {
    return this.state === 'held' && now < this.trustedUntil;
  }

  due(now: number): void {
    this.guard.due(this, now);
  }

  /** Somebody began to wait for the lock elsewhere. */
  heardOfWaiter(): void {
    this.contended = true;
  }

  /** When the watchdog has to look at it if its next renewal is due at `at`: no later than at the end of trust. */
  nextLook(at: number): number {
    return this.renews ? Math.min(at, this.trustedUntil) : this.trustedUntil;
  }

  /** Whether a renewal begins: not when one is under way. */
  startRenewal(): boolean {
    if (this.isRenewing || !this.renews) return false;
    this.isRenewing = true;
    return true;
  }

  /**
   * When to look again at a lease whose trust ends because its hold will, so that a renewal could add nothing; undefined for
   * every other. Until then a caller may be put on it who may hold it for longer. The first renewal is sent in any case: it
   * says that the holder lives.
   */
  looksAgain(now: number): number | undefined {
    if (this.isRenewing || !this.renews || this.heardAt <= this.grantedAt) return undefined;
    if (this.renewUntil - this.trustedUntil > TRAVEL_MS) return undefined;
    return this.nextLook(now + Math.max(TRAVEL_MS, (this.trustedUntil - now) / 3));
  }

  endRenewal(): void {
    this.isRenewing = false;
  }

  /** What the store is asked for to renew it, to `leaseMs` or its own length. */
  renewal(now: number, leaseMs = this.lengthMs): RenewRequest {
    const { key, id, options } = this;
    return { key, id, leaseMs: Math.max(1, Math.min(leaseMs, Math.floor(this.renewUntil - now))), minReplicas: options.minReplicas };
  }

  /**
   * Its end moved. Believes no more than was asked for or had before: a server whose clock was set back keeps the lease for
   * as long as the step, and would take it away at once when its clock is set right.
   */
  renewed(trustedUntil: number, contended: boolean, now: number, leaseMs: number): void {
    this.trustedUntil = Math.min(trustedUntil, Math.max(this.trustedUntil, now + leaseMs));
    this.contended = contended;
    this.heardAt = now;
  }

  /** The machine slept, and leases did not. */
  slept(forMs: number): void {
    this.trustedUntil -= forMs;
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
    this.keeper.leaseLost(this.loss, this);
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
    const { renewUntil, trustedUntil, options } = this;
    if (renewUntil - trustedUntil <= options.leaseMs / 100 + TRAVEL_MS) return this.lose('it was held longer than maxHoldMs');
    this.lose(this.renews ? 'it could not be renewed in time' : 'its fixed lease ended');
  }

  /** Tells `listener` when the lease is lost, at once if it is already. */
  onLoss(listener: LossListener): void {
    if (this.loss) listener.leaseLost(this.loss, this);
    else this.listeners = [...this.listeners, listener];
  }

  offLoss(listener: LossListener): void {
    // Mostly it is the only one.
    if (this.listeners.length === 1 && this.listeners[0] === listener) this.listeners = NOBODY;
    else if (this.listeners.length > 0) this.listeners = this.listeners.filter((one) => one !== listener);
  }
}
