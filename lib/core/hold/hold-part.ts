/**
 * One lock of a hold, and the nested calls that re-enter the hold for this lock. Nested calls exclude each other, send nothing to
 * the store, and may outlive the hold's own work.
 *
 *     open ──(end)──▶ draining, until the calls inside have ended ──▶ the lease, or the part around, is left
 */
import { Caller } from '../queue/caller.js';
import { StoreLease } from '../lease/store-lease.js';
import type { LockLostError } from '../port/errors.js';
import { permitsError, upgradeError } from '../port/hold-errors.js';
import type { ReleaseEnded } from '../port/lease.js';
import { covers, type LockMode } from '../port/lock-mode.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import { handedLeaseOf, type HandedLease } from './handed-lease.js';
import type { Hold } from './hold.js';
import { SiblingGate } from './sibling-gate.js';
import type { Wish } from './wish.js';

/** What a caller was admitted to: a lease of this process, or a part of a hold that surrounds the caller. */
export type Taken = StoreLease | HoldPart;

export class HoldPart {
  readonly lease: StoreLease;
  readonly fence: number;
  /** How this hold has the lock. A nested call may be for reading inside a hold that is for writing. */
  readonly mode: LockMode;
  /** The part of the hold around this one, which has the lease; undefined when this hold is not nested. */
  readonly outer: HoldPart | undefined;
  /** The nested calls. It is made for the first of them, because most holds have none. */
  private gate: SiblingGate | undefined;
  private isOverdue = false;
  private hasLeft = false;
  /** Leaves the lease. It is set while this part waits for the nested calls inside to end. */
  private whenDrained: (() => void) | undefined;

  constructor(
    taken: Taken,
    readonly hold: Hold,
  ) {
    if (taken instanceof StoreLease) {
      this.lease = taken;
      this.mode = taken.mode;
    } else {
      this.lease = taken.lease;
      this.outer = taken;
      this.mode = hold.options.mode;
    }
    this.fence = this.outer?.fence ?? this.lease.fence;
    if (this.outer) hold.nestsIn(this.outer.hold);
  }

  get key(): string {
    return this.lease.key;
  }

  /** Whether it re-entered another hold of this process, so that it has no lease of its own. */
  get isNested(): boolean {
    return this.outer !== undefined;
  }

  get isLost(): boolean {
    return this.lease.isLost;
  }

  /** Whether no nested call is inside. */
  get isEmpty(): boolean {
    return this.gate?.isEmpty ?? true;
  }

  /** @throws LockUsageError when a call with these options, which this hold surrounds, could never have the lock that it wants */
  assertCovers({ mode, permits }: ResolvedOptions): void {
    const { hold, key } = this;
    if (hold.options.permits !== permits) throw permitsError(key, permits, hold.options.permits);
    if (!covers(this.mode, mode)) throw upgradeError(key);
  }

  /**
   * Lets a nested call into a hold that is open, when its siblings allow it. False when the hold ended meanwhile, so that the call must
   * ask for the lock anew.
   */
  async reenter(wish: Wish): Promise<boolean> {
    const { hold } = this;
    this.assertCovers(wish.options);
    const lossBefore = hold.lossNow();
    if (lossBefore) throw lossBefore;
    // Whoever was just told of the loss of another lease may have ended this hold.
    if (!hold.isOpen) return false;
    const gate = (this.gate ??= new SiblingGate());
    const isInside = await new Promise<boolean>((resolve, reject) => {
      gate.join(new Caller(wish, hold.host.watchdog.schedule, resolve, reject));
    });
    if (!isInside) return false;
    const loss = hold.lossNow();
    if (loss) this.leaveInside(wish.options.mode);
    if (loss) throw loss;
    return true;
  }

  /** Called when a nested call ends. */
  leaveInside(mode: LockMode): void {
    this.gate?.leave(mode);
    if (this.isEmpty) this.whenDrained?.();
  }

  /** Lets no further call in, leaves the lease once the calls inside have ended, and calls `done` with how that ended. */
  end(now: number, done: ReleaseEnded): void {
    if (!this.gate || this.gate.isEmpty) return this.leave(now, done);
    this.gate.close();
    this.whenDrained = () => this.leave(this.hold.host.clock.now(), done);
    this.letReadersIn();
  }

  /** Gives its lock, with no call inside, to a ticket: from now on the lease is not this hold's, and without other readers not this process's. */
  giveToTicket(now: number): HandedLease {
    const { lease, hold } = this;
    const stays = lease.handOff(hold);
    return handedLeaseOf(lease, now, stays);
  }

  /** Called when the hold was lost: nested calls that wait would wait for nothing. */
  lost(error: LockLostError): void {
    this.gate?.refuse(error);
  }

  /** Called when the hold has gone on for longer than its maxHoldMs: the lease is not kept for this hold any longer. */
  expire(): void {
    if (this.isOverdue || this.outer || this.hasLeft) return;
    this.isOverdue = true;
    this.lease.addOverdue();
  }

  private leave(now: number, done: ReleaseEnded): void {
    const { lease, outer, hold } = this;
    this.hasLeft = true;
    if (!outer && this.isOverdue) lease.removeOverdue();
    if (!outer) return lease.leave(hold, now, done);
    lease.offLoss(hold);
    outer.leaveInside(this.mode);
    done(this.isLost ? 'lost' : 'released');
  }

  /** When only nested calls that read go on, the write lease becomes a read lease, so that readers of other processes need not wait. */
  private letReadersIn(): void {
    if (this.outer || !this.gate?.onlyReaders || this.mode === 'read') return;
    void this.downgrade();
  }

  private async downgrade(): Promise<void> {
    const { lease, hold } = this;
    lease.spend();
    try {
      if ((await hold.host.store.downgrade(lease)) === 'downgraded') lease.downgraded();
    } catch {
      // After a failure it stays a write lease, which excludes more callers than it must, and is released as one.
    }
  }
}
