/**
 * One lock of a hold, and the calls inside the hold that want the same lock again. They exclude each other like strangers,
 * share nothing with the store, and may outlive the hold's own work.
 *
 *     open ──(end)──▶ draining, until the calls inside have ended ──▶ the lease, or the part around, is left
 */
import { Caller } from '../queue/caller.js';
import { StoreLease } from '../lease/store-lease.js';
import { upgradeError } from '../port/hold-errors.js';
import type { ReleaseOutcome } from '../port/lease.js';
import { covers, type LockMode } from '../port/lock-mode.js';
import type { Hold } from './hold.js';
import { SiblingGate } from './sibling-gate.js';
import type { Wish } from './wish.js';

/** What a caller got into: a lease of this process, or a part of a hold that surrounds it. */
export type Entered = StoreLease | HoldPart;

export class HoldPart {
  readonly lease: StoreLease;
  readonly fence: number;
  /** How the lock is held here: inside a write hold a call may be for reading only. */
  readonly mode: LockMode;
  /** The part of the surrounding hold, which keeps the lease. */
  private readonly outer: HoldPart | undefined;
  /** Made for the first call inside: most holds have none. */
  private gate: SiblingGate | undefined;
  private isDraining = false;
  private isDowngraded = false;
  private isOverdue = false;
  private whenDrained: (() => void) | undefined;

  constructor(
    entered: Entered,
    private readonly hold: Hold,
  ) {
    if (entered instanceof StoreLease) {
      this.lease = entered;
      this.mode = entered.mode;
    } else {
      this.lease = entered.lease;
      this.outer = entered;
      this.mode = hold.options.mode;
    }
    this.fence = this.outer?.fence ?? this.lease.fence;
    this.lease.onLoss(hold);
    this.outer?.hold.count(1);
  }

  get key(): string {
    return this.lease.key;
  }

  /** It is inside another hold of this process, and has nothing of its own in the store. */
  get isNested(): boolean {
    return this.outer !== undefined;
  }

  /** No call is inside. */
  get isEmpty(): boolean {
    return this.gate?.isEmpty ?? true;
  }

  /** Lets a nested call in, after its siblings. False when the hold ended meanwhile: then it must ask for the lock anew. */
  async enter(wish: Wish): Promise<boolean> {
    const { hold, key } = this;
    if (this.isDraining) return false;
    if (!covers(this.mode, wish.options.mode)) throw upgradeError(key);
    const gate = (this.gate ??= new SiblingGate());
    hold.entering();
    const entered = await new Promise<boolean>((resolve, reject) => {
      gate.enter(new Caller(wish, hold.host.watchdog.schedule, resolve, reject));
    });
    if (!entered) return false;
    const loss = hold.lossNow();
    if (loss) this.leaveInside(wish.options.mode);
    if (loss) throw loss;
    return true;
  }

  /** A call that was let in ends. */
  leaveInside(mode: LockMode): void {
    this.gate?.leave(mode);
    if (!this.isDraining) return;
    if (this.isEmpty) this.whenDrained?.();
    else this.letReadersIn();
  }

  /** Leaves the lease once the calls inside have ended; nobody comes in any more. */
  end(now: number, done: (outcome: ReleaseOutcome) => void): void {
    this.isDraining = true;
    if (!this.gate || this.gate.isEmpty) {
      this.gate?.close();
      return this.leave(now, done);
    }
    this.gate.close();
    this.whenDrained = () => this.leave(this.hold.host.clock.now(), done);
    this.letReadersIn();
  }

  /** The hold went on for longer than it may: nobody else is put on its lease, and it is not renewed for its sake. */
  expire(): void {
    if (this.isOverdue || this.outer) return;
    this.isOverdue = true;
    this.lease.addOverdue();
  }

  /** Counts nested calls in or out, in the holds around this one. */
  countOutside(change: number): void {
    this.outer?.hold.count(change);
  }

  private leave(now: number, done: (outcome: ReleaseOutcome) => void): void {
    const { lease, outer, hold } = this;
    if (!outer) return lease.leave(hold, now, false, this.isOverdue, done);
    lease.offLoss(hold);
    outer.hold.count(-1);
    outer.leaveInside(this.mode);
    done(lease.isLost ? 'lost' : 'released');
  }

  /** Only reading calls go on: the write lease becomes a read lease, and readers elsewhere need not wait for them. */
  private letReadersIn(): void {
    if (this.isDowngraded || this.outer || !this.gate?.onlyReaders || this.mode === 'read') return;
    this.isDowngraded = true;
    void this.downgrade();
  }

  private async downgrade(): Promise<void> {
    const { lease, hold } = this;
    lease.spend();
    try {
      if ((await hold.host.store.downgrade(lease)) === 'downgraded') lease.downgraded();
    } catch {
      // It stays a write lease: stricter than it need be, and released as such.
    }
  }
}
