/** One permit that this process has or asks for: it tells its queue what becomes of the request, and then of the lease. */
import type { GuardedLease } from '../lease/guarded-lease.js';
import type { PermitLease } from '../lease/permit-lease.js';
import type { LeaseKeeper, StoreLease } from '../lease/store-lease.js';
import type { ReleaseEnded } from '../port/lease.js';
import type { HandOnWindow } from './permit-turns.js';
import type { Answer, RequestListener } from './request-parts.js';
import type { StoreRequest } from './store-request.js';

/** The queue of callers to which a lane belongs. */
export interface LaneKeeper {
  laneAnswered(lane: PermitLane, request: StoreRequest, answer: Answer): void;
  laneDelayed(request: StoreRequest): void;
  /** The lane has no lease any more: it was lost, or handed off. */
  laneLost(lease: GuardedLease): void;
  callerLeft(lane: PermitLane, lease: StoreLease, done: ReleaseEnded): void;
}

/** It has a request or a lease, never both. */
export class PermitLane implements RequestListener, LeaseKeeper {
  request: StoreRequest | undefined;
  lease: PermitLease | undefined;
  /** The time in which the permit may go on to further callers of this process; undefined before the permit has come. */
  window: HandOnWindow | undefined;
  /** How many callers of this process have had the permit since others had it. */
  private turns = 0;

  constructor(private readonly keeper: LaneKeeper) {}

  /** Notes that the permit has come from others. */
  comesFromOthers(window: HandOnWindow): void {
    this.turns = 0;
    this.window = window;
  }

  /** Notes that a caller begins to use the permit. */
  served(): void {
    this.turns += 1;
  }

  /** Whether the permit may go on to another caller of this process although others wait. */
  mayHandOn(now: number, handOn: number): boolean {
    return this.turns < handOn && this.window?.isOpen(now) === true;
  }

  requestAnswered(answer: Answer): void {
    const request = this.request!;
    this.request = undefined;
    this.keeper.laneAnswered(this, request, answer);
  }

  requestDelayed(): void {
    if (this.request) this.keeper.laneDelayed(this.request);
  }

  leaseLost(_error: Error, lease: GuardedLease): void {
    this.lease = undefined;
    this.keeper.laneLost(lease);
  }

  leaseHandedOff(lease: StoreLease): void {
    this.lease = undefined;
    this.keeper.laneLost(lease);
  }

  callerLeft(lease: StoreLease, done: ReleaseEnded): void {
    this.keeper.callerLeft(this, lease, done);
  }

  /** A lease on a permit admits one caller at a time, so nothing that changes while it is used admits another. */
  leaseChanged(): void {}
}
