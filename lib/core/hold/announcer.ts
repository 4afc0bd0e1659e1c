/** What happens to locks, told to those who watch: as events to the application, and what an operator should read to the log. */
import type { LockError, LockStoreError } from '../port/errors.js';
import { isLockError } from '../port/errors.js';
import { keptText, lostText, renewFailedText } from '../port/hold-reports.js';
import type { ReleaseOutcome } from '../port/lease.js';
import type { LockEvent } from '../port/lock-events.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Report } from '../port/report.js';
import type { GuardedLease } from '../lease/guarded-lease.js';
import type { Hold } from './hold.js';
import type { Wish } from './wish.js';

/** Where events go; nothing is made for nobody. Grants and releases are on the way of every call, so whoever tells them looks first. */
export interface EventSink {
  readonly observed: boolean;
  next(event: LockEvent): void;
}

/** A call that asks for locks. */
export interface Asked {
  /** Its number in this process. */
  readonly call: number;
  readonly keys: readonly string[];
  readonly options: ResolvedOptions;
}

export class Announcer {
  constructor(
    private readonly events: EventSink,
    private readonly report: Report | undefined,
  ) {}

  waiting({ key, call, options }: Wish): void {
    if (this.events.observed) this.events.next({ type: 'waiting', key, call, ...siteOf(options) });
  }

  granted(hold: Hold, waitedMs: number): void {
    this.events.next({ ...factsOf(hold), type: 'granted', waitedMs });
  }

  released(hold: Hold, outcome: ReleaseOutcome): void {
    this.events.next({ ...factsOf(hold), type: 'released', heldMs: hold.heldMs, outcome });
  }

  /** `forTheLog` is false when it will be told together with others. */
  lost(hold: Hold, cause: LockError, forTheLog: boolean): void {
    if (this.events.observed) this.events.next({ ...factsOf(hold), type: 'lost', heldMs: hold.heldMs, cause });
    // A call inside another hold has nothing of its own in the store: the loss is told for the hold around it.
    if (forTheLog && !hold.isNested) this.report?.({ kind: 'lease lost', level: 'warning', message: lostText(cause.message, hold) });
  }

  renewFailed(lease: GuardedLease, cause: LockStoreError, trustedForMs: number): void {
    const { key, mode } = lease;
    if (this.events.observed) this.events.next({ type: 'renewFailed', key, mode, call: undefined, label: undefined, template: undefined, cause });
    this.report?.({ kind: 'renewal failed', level: 'warning', message: renewFailedText(key, cause, trustedForMs) });
  }

  /** Holds that went on for longer than a shutdown waits. */
  overstayed(holds: readonly Hold[], graceMs: number): void {
    this.report?.({ kind: 'shutdown', level: 'warning', message: keptText(holds, graceMs) });
  }

  /** Why a request got nothing. */
  refused({ keys, call, options }: Asked, cause: unknown, waitedMs: number): void {
    if (!this.events.observed) return;
    const common = { key: keys[0]!, call, ...siteOf(options), waitedMs };
    if (!isLockError(cause)) this.events.next({ ...common, type: 'cancelled' });
    else if (cause.code === 'LOCK_TIMEOUT') this.events.next({ ...common, type: 'busy' });
    else this.events.next({ ...common, type: 'failed', cause });
  }
}

function siteOf({ mode, label, template }: ResolvedOptions): Pick<ResolvedOptions, 'mode' | 'label' | 'template'> {
  return { mode, label, template };
}

function factsOf(hold: Hold): ReturnType<typeof siteOf> & { key: string; call: number; fence: number; nested: boolean } {
  const { key, call, isNested: nested } = hold;
  return { ...siteOf(hold.options), key, call, nested, fence: hold.fences.get(key)! };
}
