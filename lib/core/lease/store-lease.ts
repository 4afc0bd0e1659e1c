/**
 * The lease that this process has of one lock in the store, from the grant until it is given back or lost. The callers of
 * the process follow each other on it, or share it when they read. All of its state changes here and nowhere else.
 *
 *                  ┌── admit, leave: callers come and go; renewed: its end moves
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
import type { ReleaseOutcome } from '../port/lease.js';
import type { LockMode } from '../port/lock-mode.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant, RenewRequest } from '../port/lock-store.js';
import type { DoubtfulRelease } from './background-release.js';
import { Appointment } from './schedule.js';

/** While others wait, the callers of one process follow each other on a lease for about this long. */
const HAND_ON_WINDOW_MS = 50;
/** Without news for this long the store is asked whether others wait, because messages get lost. */
const NEWS_STALE_AFTER_MS = 1_000;
/** A lease with less trust left than this, or than a quarter of its length, is not handed on: the next caller gets a fresh one. */
const MIN_TRUST_TO_HAND_ON_MS = 500;
/** Trust that ends so close to `renewUntil` ends because of maxHoldMs: the rest is margin and travel. */
const TRAVEL_MS = 15;

/** Told once when the lease is lost. */
export interface LossListener {
  leaseLost(error: LockLostError): void;
}

/** The queue of callers that the lease was asked for. */
export interface LeaseKeeper {
  /** Told before anybody else that the lease is lost. */
  leaseLost(lease: StoreLease): void;
  /** A caller left it. The keeper hands it on or gives it back, and says how that ended for the caller. */
  callerLeft(lease: StoreLease, done: (outcome: ReleaseOutcome) => void): void;
  /** Somebody may be admitted who could not be admitted before. */
  leaseChanged(): void;
}

/** What renews the lease and ends its trust in time. */
export interface LeaseGuard {
  due(lease: StoreLease, now: number): void;
  watch(lease: StoreLease, now: number): void;
  forget(lease: StoreLease): void;
}

export class StoreLease extends Appointment implements DoubtfulRelease {
  private state: 'held' | 'released' | 'lost' = 'held';
  private heldMode: LockMode;
  private trustEnds: number;
  private othersWait: boolean;
  /** When the store last told us whether others wait. */
  private heardAt: number;
  private renewUntil = Infinity;
  private renewing = false;
  /** One of several locks that a caller still gathers: it is renewed meanwhile, whatever the caller's terms are. */
  private isGathered = false;
  private loss: LockLostError | undefined;
  private isGone = false;
  /** How many callers are on the lease now, and how many have ever been. */
  private users = 0;
  private turns = 0;
  /** How many callers on the lease have held it for longer than their maxHoldMs. */
  private overdueUsers = 0;
  private isSpent = false;
  private isAbandoned = false;
  private lastAdmission: number;
  private nextFence: number;
  private listeners: readonly LossListener[] = [];

  constructor(
    readonly key: string,
    readonly id: string,
    /** Of the caller that it was asked for. */
    readonly options: ResolvedOptions,
    private readonly grant: Grant,
    /** The readers that had come by this arrival waited when its phase began. */
    private readonly phase: number,
    /** Local instant until which a request for it that was not answered may still act. */
    readonly lateUntil: number,
    private readonly keeper: LeaseKeeper,
    private readonly guard: LeaseGuard,
  ) {
    super();
    this.heldMode = grant.mode;
    this.trustEnds = grant.trustedUntil;
    this.othersWait = grant.contended;
    this.heardAt = grant.grantedAt;
    this.lastAdmission = grant.grantedAt;
    this.nextFence = grant.fence;
  }

  /** It may be stronger than what was asked for, when requests of one owner share a hold. */
  get mode(): LockMode {
    return this.heldMode;
  }

  /** The fence of whoever is on the lease: readers share one. */
  get fence(): number {
    return this.sharesFence ? this.nextFence : this.nextFence - 1;
  }

  /** When the last caller was admitted. */
  get admittedAt(): number {
    return this.lastAdmission;
  }

  get trustedUntil(): number {
    return this.trustEnds;
  }

  /** Whether others wait for the lock, as far as this process has heard. */
  get contended(): boolean {
    return this.othersWait;
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

  /** Whether any caller is on it. */
  get isUsed(): boolean {
    return this.users > 0;
  }

  /** How many turns the process has had on it. */
  get turnCount(): number {
    return this.turns;
  }

  /** The work of its last caller never began: the release owes no minHoldMs. */
  get abandoned(): boolean {
    return this.isAbandoned;
  }

  /** Its end in the store belongs to a hold that never began. Whoever followed by a yield would wait for its minHoldMs. */
  get owesNothing(): boolean {
    return this.isAbandoned && this.isSpent;
  }

  /** The store itself said that it is gone: nothing is left to take back. */
  get goneFromStore(): boolean {
    return this.isGone;
  }

  /** Who is told of its loss: the holds on it. */
  get followers(): readonly LossListener[] {
    return this.listeners;
  }

  /** How many fences it had, when all of them were used; else 0. */
  get usedUpFences(): number {
    return this.hasFences ? 0 : this.grant.fences;
  }

  isTrusted(now: number): boolean {
    return this.state === 'held' && now < this.trustEnds;
  }

  /**
   * Whether a caller with these options may be put on the lease now. When not, the store must be asked for it. `arrival`: of
   * a caller that waits.
   */
  admits(wanted: ResolvedOptions, now: number, handOn: number, arrival = Infinity): boolean {
    if (!this.isTrusted(now) || !areAlike(this.options, wanted)) return false;
    if (this.turns === 0) return true;
    if (this.isSpent || !this.options.renew || wanted.minHoldMs > 0) return false;
    const leftMs = this.trustEnds - now;
    // A hung caller must not keep the lock for longer than it may: its lease has to end by then.
    if (leftMs > wanted.maxHoldMs || leftMs < Math.min(this.options.leaseMs / 4, MIN_TRUST_TO_HAND_ON_MS)) return false;
    if (now - this.heardAt >= NEWS_STALE_AFTER_MS) return false;
    // Readers join side by side; while a writer waits anywhere, only those that its phase lets in.
    if (this.options.mode === 'read') return !this.othersWait || arrival <= this.phase;
    if (this.users > 0 || handOn === 1 || !this.hasFences) return false;
    return !this.othersWait || (this.turns < handOn && now - this.grant.grantedAt < HAND_ON_WINDOW_MS);
  }

  /** Puts a caller on the lease. */
  admit({ maxHoldMs, minHoldMs }: ResolvedOptions, now: number): void {
    const until = now + maxHoldMs;
    this.renewUntil = this.users === 0 ? until : Math.max(this.renewUntil, until);
    this.users += 1;
    this.turns += 1;
    this.lastAdmission = now;
    if (minHoldMs > 0) this.isSpent = true;
    if (!this.sharesFence) this.nextFence += 1;
  }

  /** A caller's time on it ends. `abandoned`: its work never began. `wasOverdue`: it had held it for too long. */
  leave(now: number, abandoned: boolean, wasOverdue: boolean, done: (outcome: ReleaseOutcome) => void): void {
    this.users -= 1;
    this.isAbandoned = abandoned;
    if (wasOverdue) this.overdueUsers -= 1;
    if (now >= this.trustEnds) this.endTrust();
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
    if ((renew && maxHoldMs === Infinity) || this.state !== 'held') return;
    // A fixed lease is nobody else's; one that readers share is renewed already.
    this.isGathered = this.users === 1;
    this.renewUntil = Infinity;
    this.guard.watch(this, now);
  }

  /** All locks are there: maxHoldMs counts from here. A lease of fixed length has to be renewed once more, to begin now. */
  begin({ maxHoldMs }: ResolvedOptions, now: number): void {
    this.isGathered = false;
    this.lastAdmission = now;
    if (this.users === 1) this.renewUntil = now + maxHoldMs;
  }

  /** Only reading goes on in it. */
  downgraded(): void {
    this.heldMode = 'read';
    this.keeper.leaseChanged();
  }

  /** Nobody else is put on it, because its end or its mode in the store belongs to one hold. */
  spend(): void {
    this.isSpent = true;
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

  /**
   * When to look again at a lease whose trust ends because its hold will, so that a renewal could add nothing; undefined for
   * every other. Until then a caller may be put on it who may hold it for longer. The first renewal is sent in any case: it
   * says that the holder lives.
   */
  looksAgain(now: number): number | undefined {
    if (this.renewing || !this.renews || this.heardAt <= this.grant.grantedAt) return undefined;
    if (this.renewUntil - this.trustEnds > TRAVEL_MS) return undefined;
    return this.nextLook(now + Math.max(TRAVEL_MS, (this.trustEnds - now) / 3));
  }

  /** A renewal is under way. */
  get isRenewing(): boolean {
    return this.renewing;
  }

  endRenewal(): void {
    this.renewing = false;
  }

  /** Whether a renewal is not under way and would do something. */
  get renews(): boolean {
    return this.isGathered || this.options.renew;
  }

  /** What the store is asked for to renew it, to `leaseMs` or its own length. */
  renewal(now: number, leaseMs = this.lengthMs): RenewRequest {
    const { key, id, options } = this;
    return { key, id, leaseMs: Math.max(1, Math.min(leaseMs, Math.floor(this.renewUntil - now))), minReplicas: options.minReplicas };
  }

  /** The length of its renewals, in ms. */
  get lengthMs(): number {
    return this.isGathered ? Math.min(this.options.leaseMs, this.options.maxHoldMs) : this.options.leaseMs;
  }

  /**
   * Its end moved. Believes no more than was asked for or had before: a server whose clock was set back keeps the lease for
   * as long as the step, and would take it away at once when its clock is set right.
   */
  renewed(trustedUntil: number, contended: boolean, now: number, leaseMs: number): void {
    this.trustEnds = Math.min(trustedUntil, Math.max(this.trustEnds, now + leaseMs));
    this.othersWait = contended;
    this.heardAt = now;
  }

  /** The machine slept, and leases did not. */
  slept(forMs: number): void {
    this.trustEnds -= forMs;
  }

  /** From here on it is not ours any more, whatever the store answers to the release. */
  letGo(): void {
    this.guard.forget(this);
    this.state = 'released';
  }

  lose(reason: string): void {
    if (this.state !== 'held') return;
    this.guard.forget(this);
    this.state = 'lost';
    this.loss = lostError(this.key, reason);
    this.keeper.leaseLost(this);
    for (const listener of this.listeners) listener.leaseLost(this.loss);
    this.listeners = [];
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
    if (this.loss) listener.leaseLost(this.loss);
    else this.listeners = [...this.listeners, listener];
  }

  offLoss(listener: LossListener): void {
    this.listeners = this.listeners.filter((one) => one !== listener);
  }

  due(now: number): void {
    this.guard.due(this, now);
  }

  /** By what was asked for: a lease that turned out stronger has no more fences than were reserved. */
  private get sharesFence(): boolean {
    return this.options.mode === 'read';
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
