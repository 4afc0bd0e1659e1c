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
import { NO_MEMORY, type Grant, type HeldLease, type HolderRef, type RenewOutcome, type RenewRequest } from '../port/lock-store.js';
import type { GrantedRequest, LeaseGuard, LossListener } from './lease-guard.js';
import { Appointment } from './appointment.js';

/** So much, in ms, a trust that reaches to `renewUntil` ends before it, beside the renewal's margin: the time of the way to the store. */
const TRAVEL_MS = 15;

const NOBODY: readonly LossListener[] = [];

type Renewed = Extract<RenewOutcome, { kind: 'renewed' }>;

/** Every file may read the state of a lease, and only this class and those that extend it write it: test/architecture.test.ts checks that. */
export class GuardedLease extends Appointment implements HolderRef, HeldLease {
  readonly key: string;
  readonly id: string;
  /** The options of the caller for which the store was asked. */
  readonly options: ResolvedOptions;
  /** The mode that the store granted. It may be stronger than what was asked for, when requests of one owner share a hold. */
  mode: LockMode;
  /** Local instant until which nobody else holds the lock, as far as this process may believe. */
  trustedUntil: number;
  /** Whether others wait for the lock, as far as this process has heard. */
  contended: boolean;
  /** When the store last said whether others wait for the lock, in clock.now() time. */
  heardAt: number;
  /** The memory of the store that knew it last. */
  memory: string | undefined;
  /** Local instant until which a request of this process that got no answer may still act for it in the store. */
  lateUntil: number;
  /** Whether the store said that it does not know the lease, so that it need not be released any more. */
  goneFromStore = false;
  /** No renewal reaches beyond this instant. */
  protected renewUntil = Infinity;
  /** Whether its caller wants several locks and does not have all of them yet: until then it is renewed, whatever the options say. */
  protected isGathered = false;
  /** Whether the last renewal got no answer: then the store is asked again, also about a lease of fixed length. */
  private isUnanswered = false;
  /** Whether a renewal has been started and not been answered yet, and whether the store may have forgotten the lease meanwhile. */
  private renewing: 'no' | 'yes' | 'in doubt' = 'no';
  private state: 'held' | 'released' | 'lost' = 'held';
  private loss: LockLostError | undefined;
  private listeners: readonly LossListener[] = NOBODY;

  constructor(
    { key, id, options, lateUntil }: GrantedRequest,
    protected readonly grant: Grant,
    /** When this process learned of the grant. */
    protected readonly grantedAt: number,
    /** The listener that is called first when it is lost. */
    protected readonly keeper: LossListener,
    protected readonly guard: LeaseGuard,
  ) {
    super();
    this.key = key;
    this.id = id;
    this.options = options;
    this.lateUntil = lateUntil;
    this.mode = grant.mode;
    this.trustedUntil = grant.trustedUntil;
    this.contended = grant.contended;
    this.heardAt = grantedAt;
    this.memory = grant.memory;
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

  get permits(): number | undefined {
    return this.options.permits;
  }

  get label(): string | undefined {
    return this.options.label;
  }

  get minHoldUntil(): number {
    return this.options.minHoldMs > 0 ? this.grantedAt + this.options.minHoldMs : -Infinity;
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

  /** Whether a renewal has been started and not been answered yet. */
  get isRenewing(): boolean {
    return this.renewing !== 'no';
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
    return this.state === 'held' && now < this.trustedUntil;
  }

  due(now: number): void {
    this.guard.due(this, now);
  }

  /** Notes that another process began to wait for the lock. */
  heardOfWaiter(): void {
    this.contended = true;
  }

  /** When the watchdog has to look at it, if the next renewal is planned for `at`: at the end of trust at the latest. */
  nextLook(at: number): number {
    return at < this.trustedUntil && (this.isUnanswered || this.renews) ? at : this.trustedUntil;
  }

  /** Starts a renewal. False when one is under way already, or the lease is not renewed at all. */
  startRenewal(): boolean {
    return (this.renews || this.isUnanswered) && !this.isRenewing && this.startReview();
  }

  /** Marks the lease as one to be renewed now, a lease of fixed length too. False when a renewal is under way, whose answer is in doubt then. */
  startReview(isReplaced = false): boolean {
    if (isReplaced) this.memory = NO_MEMORY;
    const starts = this.renewing === 'no';
    this.renewing = starts ? 'yes' : 'in doubt';
    return starts;
  }

  /** Called when the renewal is really sent. Doubts from before that moment are settled by its answer. */
  renewalSent(): void {
    this.renewing = 'yes';
  }

  /**
   * When to look again at a lease whose trust reaches to `renewUntil` already: a caller that may hold the lock for longer can be put on
   * it meanwhile. Undefined for one that must be renewed now, as each is once, because that tells the store that its holder lives.
   */
  looksAgain(now: number): number | undefined {
    if (this.isRenewing || !this.renews || this.heardAt <= this.grantedAt) return undefined;
    if (this.renewUntil - this.trustedUntil > TRAVEL_MS) return undefined;
    return this.nextLook(now + Math.max(TRAVEL_MS, (this.trustedUntil - now) / 3));
  }

  /** Notes that the store did not answer a renewal, which may bring the lease back until this local instant. */
  unanswered(until = -Infinity): void {
    this.isUnanswered = true;
    this.lateUntil = Math.max(this.lateUntil, until);
  }

  /** Notes that the store has answered the renewal. Returns whether the answer is in doubt. */
  endRenewal(): boolean {
    const isInDoubt = this.renewing === 'in doubt';
    this.renewing = 'no';
    return isInDoubt;
  }

  /** The request that renews it to end `leaseMs` from now, but not after `renewUntil`. A lease that is not renewed keeps its end. */
  renewal(now: number, leaseMs = this.renews ? this.lengthMs : Math.floor(this.trustedUntil - now)): RenewRequest {
    const { key, id, options } = this;
    return { key, id, leaseMs: Math.max(1, Math.min(leaseMs, Math.floor(this.renewUntil - now))), graceMs: options.graceMs, minReplicas: options.minReplicas, held: this };
  }

  /**
   * Notes that the store has renewed it. The new end is believed only as far as what was asked for, or what was trusted before: a
   * server whose clock was set back would report a later end, and take the lease away at once when its clock is corrected.
   */
  renewed({ trustedUntil, contended, memory }: Renewed, now: number, leaseMs: number): void {
    this.isUnanswered = false;
    if (memory !== undefined) this.memory = memory;
    this.trustedUntil = Math.min(trustedUntil, Math.max(this.trustedUntil, now + leaseMs));
    this.contended = contended;
    this.heardAt = now;
  }

  /** Shortens the trust by the time that the machine slept: the lease in the store went on meanwhile. */
  slept(forMs: number): void {
    this.trustedUntil -= forMs;
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
    this.keeper.leaseLost(this.loss, this);
    for (const listener of this.listeners) listener.leaseLost(this.loss, this);
    this.listeners = NOBODY;
  }

  /** Ends it as lost because the store said that it does not know it. */
  loseFromStore(reason: string): void {
    this.goneFromStore = true;
    this.lose(reason);
  }

  /** Ends it as lost because its trust has ended. The reason says whether maxHoldMs, a fixed length or a missing renewal ended it. */
  endTrust(): void {
    const { renewUntil, trustedUntil, options } = this;
    if (renewUntil - trustedUntil <= options.leaseMs / 100 + TRAVEL_MS) return this.lose('it was held longer than maxHoldMs');
    this.lose(this.renews ? 'it could not be renewed in time' : 'its fixed lease ended');
  }

  /** Calls `listener` when the lease is lost; at once when it is lost already. */
  onLoss(listener: LossListener): void {
    if (this.loss) listener.leaseLost(this.loss, this);
    else this.listeners = [...this.listeners, listener];
  }

  offLoss(listener: LossListener): void {
    // For most leases it is the only one, and then no list is made.
    if (this.listeners.length === 1 && this.listeners[0] === listener) this.listeners = NOBODY;
    else this.listeners = this.listeners.filter((one) => one !== listener);
  }
}
