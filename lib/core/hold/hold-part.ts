/**
 * One lock of a hold: the turn on its lease, and the calls inside the hold that want the same lock again. They exclude
 * each other like strangers, share nothing with the store, and may outlive the hold's own work.
 */
import { Caller, type WaitEnded } from '../queue/caller.js';
import type { Clock } from '../port/clock.js';
import type { LockLostError } from '../port/errors.js';
import { siblingBusyError, upgradeError } from '../port/hold-errors.js';
import type { ReleaseOutcome } from '../port/lease.js';
import { covers, type LockMode } from '../port/lock-mode.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Schedule } from '../lease/schedule.js';
import { SiblingGate } from './sibling-gate.js';
import type { Turn } from '../queue/turn.js';

/** What a part needs to know of its hold. */
export interface SurroundingHold {
  readonly clock: Clock;
  readonly schedule: Schedule;
  /** Compares the clock now. */
  lossNow(): LockLostError | undefined;
  count(change: number): void;
}

export class HoldPart {
  /** Made for the first call inside: most holds have none. */
  private gate: SiblingGate | undefined;
  private draining = false;
  private downgraded = false;
  private drained: (() => void) | undefined;

  constructor(
    readonly turn: Turn,
    private readonly hold: SurroundingHold,
  ) {}

  get key(): string {
    return this.turn.lease.key;
  }

  /** No call is inside. */
  get empty(): boolean {
    return this.gate?.empty ?? true;
  }

  /** Lets a nested call in, after its siblings. Undefined when the hold ended meanwhile: then it must ask for the lock anew. */
  async enter(options: ResolvedOptions, until: number, onWaiting: () => WaitEnded | undefined): Promise<Turn | undefined> {
    const { hold, key } = this;
    if (this.draining) return undefined;
    if (!covers(this.turn.mode, options.mode)) throw upgradeError(key);
    const gate = (this.gate ??= new SiblingGate());
    const entered = await new Promise<boolean>((resolve, reject) => {
      const caller = new Caller(options, until, true, onWaiting, hold.schedule, { resolve, reject });
      gate.enter(caller, () => siblingBusyError(key, options.waitMs));
    });
    if (!entered) return undefined;
    const loss = hold.lossNow();
    if (!loss) return this.turnInside(options);
    this.leave(options.mode);
    throw loss;
  }

  /** Ends the turn once the calls inside have ended; nobody comes in any more. */
  end(done: (outcome: ReleaseOutcome) => void): void {
    this.draining = true;
    this.gate?.close();
    if (this.empty) return this.turn.end(done);
    this.drained = () => this.turn.end(done);
    this.letReadersIn();
  }

  private turnInside(options: ResolvedOptions): Turn {
    const { lease, fence } = this.turn;
    let counted = false;
    return {
      lease,
      fence,
      options,
      mode: options.mode,
      nested: true,
      end: (done) => {
        if (counted) this.hold.count(-1);
        this.leave(options.mode);
        done(lease.state === 'lost' ? 'lost' : 'released');
      },
      keep: () => {},
      begin: (done) => done(),
      downgrade: async () => {},
      expire: () => {},
      count: (change) => {
        counted = true;
        this.hold.count(change);
      },
    };
  }

  private leave(mode: LockMode): void {
    this.gate?.leave(mode);
    if (!this.draining) return;
    if (this.empty) this.drained?.();
    else this.letReadersIn();
  }

  /** Only reading calls go on: the write lease becomes a read lease, and readers elsewhere need not wait for them. */
  private letReadersIn(): void {
    if (this.downgraded || !this.gate?.onlyReaders || this.turn.mode === 'read') return;
    this.downgraded = true;
    void this.turn.downgrade();
  }
}
