/**
 * A grant that this process holds in the store, from the grant to its release or loss. The callers of one process may
 * follow each other on it (local-queue.ts); what a caller sees of it is a hold (hold.ts).
 *
 *     held ──▶ released        the process gave it back, or is about to
 *       └────▶ lost            trust ended; whoever works on it is told
 */
import type { LockLostError } from '../port/errors.js';
import { lostError } from '../port/hold-errors.js';
import type { LockMode } from '../port/lock-mode.js';
import type { Grant, ReleaseRequest } from '../port/lock-store.js';
import { Appointment } from './schedule.js';

export interface LeaseTerms {
  readonly leaseMs: number;
  readonly renew: boolean;
  readonly minReplicas: number;
}

/** Told once when the lease is lost. */
export interface LossListener {
  leaseLost(error: LockLostError): void;
}

export class HeldLease extends Appointment implements ReleaseRequest {
  state: 'held' | 'released' | 'lost' = 'held';
  mode: LockMode;
  /** Local instant after which the lease must not be trusted. */
  trustedUntil: number;
  /** Somebody else waits for the lock, as far as we have heard. */
  contended: boolean;
  /** When the store last told us whether somebody waits. */
  heardAt: number;
  /** No renewal reaches beyond this instant (maxHoldMs of the present holds). */
  renewUntil = Infinity;
  /** A renewal is under way. */
  renewing = false;
  /** Why it was lost. */
  lossError: LockLostError | undefined;
  /** The store itself said that the lease is gone: nothing is left to release. */
  goneFromStore = false;
  /** The work of its last turn never began. */
  abandoned = false;
  /** Local instant until which a request for it that was not answered may still act. */
  lateUntil = -Infinity;
  /** Set by the watchdog: what to do when the appointment with it is due. */
  onDue: ((lease: HeldLease, now: number) => void) | undefined;
  private listeners: readonly LossListener[];

  constructor(
    readonly key: string,
    readonly id: string,
    public terms: LeaseTerms,
    grant: Grant,
    /** When we learned of the grant. */
    readonly grantedAt: number,
    /** Who handed the lease out: told of its loss first. */
    keeper: LossListener,
  ) {
    super();
    this.listeners = [keeper];
    this.mode = grant.mode;
    this.trustedUntil = grant.trustedUntil;
    this.contended = grant.contended;
    this.heardAt = grantedAt;
  }

  due(now: number): void {
    this.onDue?.(this, now);
  }

  isTrusted(now: number): boolean {
    return this.state === 'held' && now < this.trustedUntil;
  }

  /**
   * Believes no more than was asked for or had before: a server whose clock was set back keeps the lease for as long as the
   * step, and would take it away at once when its clock is set right.
   */
  renewed(trustedUntil: number, contended: boolean, now: number, leaseMs: number): void {
    this.trustedUntil = Math.min(trustedUntil, Math.max(this.trustedUntil, now + leaseMs));
    this.contended = contended;
    this.heardAt = now;
  }

  lose(reason: string): void {
    if (this.state !== 'held') return;
    this.state = 'lost';
    this.lossError = lostError(this.key, reason);
    for (const listener of this.listeners) listener.leaseLost(this.lossError);
    this.listeners = [];
  }

  /** Tells `listener` when the lease is lost, at once if it is already. */
  onLoss(listener: LossListener): void {
    if (this.state === 'lost') listener.leaseLost(this.lossError!);
    else this.listeners = [...this.listeners, listener];
  }

  offLoss(listener: LossListener): void {
    this.listeners = this.listeners.filter((one) => one !== listener);
  }
}
