/** The events of `LockService.events`: what happens to locks in this process, for logs, metrics and tests. */
import type { LockError, LockLostError } from './errors.js';
import type { ReleaseOutcome } from './lease.js';
import type { LockMode } from './lock-options.js';

interface LockEventBase {
  /** The number of the call, the same in all events of one call; undefined in `renewFailed`, which is about a lease of many calls. */
  readonly call: number | undefined;
  readonly key: string;
  readonly mode: LockMode;
  /** The option `label` of the call; else `Class.method` when a decorator made it, unless the module has `describeHolders: false`. */
  readonly label: string | undefined;
  /** The key template before rendering, when the key was made by one. */
  readonly template: string | undefined;
}

/** What happened to a hold. `nested`: its call re-entered a hold around it, without asking the store. */
interface HoldEventBase extends LockEventBase {
  readonly fence: number;
  readonly nested: boolean;
}

/** What happened to a lock in this process, as {@link LockService.events} tells it. Times are in ms. */
export type LockEvent =
  /** A hold began. `waitedMs` counts from the call. */
  | (HoldEventBase & { readonly type: 'granted'; readonly waitedMs: number })
  /** A call could not be granted its lock at once and waits. */
  | (LockEventBase & { readonly type: 'waiting' })
  /** A call ended with LockTimeoutError, because the lock stayed busy. */
  | (LockEventBase & { readonly type: 'busy'; readonly waitedMs: number })
  /** A hold ended. `outcome` is that of the release. */
  | (HoldEventBase & { readonly type: 'released'; readonly heldMs: number; readonly outcome: ReleaseOutcome })
  /** A hold began, because this process brought its ticket. `waitedMs` counts from the call. */
  | (HoldEventBase & { readonly type: 'adopted'; readonly waitedMs: number })
  /** A hold ended, because it was handed off: whoever brings its ticket has the lock next. There is no `released` for it. */
  | (HoldEventBase & { readonly type: 'handedOff'; readonly heldMs: number })
  /** The lease of a hold was lost before the hold ended; `cause.reason` says why. */
  | (HoldEventBase & { readonly type: 'lost'; readonly heldMs: number; readonly cause: LockLostError })
  /** The store did not answer a renewal. The watchdog tries again until the lease can no longer be trusted. */
  | (LockEventBase & { readonly type: 'renewFailed'; readonly cause: LockError })
  /** A call stopped waiting, because its `signal` aborted. */
  | (LockEventBase & { readonly type: 'cancelled'; readonly waitedMs: number })
  /** The function of a leader failed with `cause`, which may be anything; its process stands for election again after `restMs`. */
  | (LockEventBase & { readonly type: 'termFailed'; readonly fence: number; readonly restMs: number; readonly cause: unknown })
  /** A call failed for another reason: the store did not respond, the module was closed, or the call cannot work (LockUsageError). */
  | (LockEventBase & { readonly type: 'failed'; readonly waitedMs: number; readonly cause: LockError })
  | StoreEvent;

/** What happened to the store itself, which is about no lock. */
export type StoreEvent = { readonly [Name in keyof LockEventBase]?: undefined } & {
  readonly store: string;
  /** Why it may have forgotten. Of one Redis and of Sentinel nobody can tell a restart from another server in its place. */
  readonly reason: 'flushed' | 'restarted' | 'replaced' | 'restarted-or-replaced';
} & (
    /** The store may have forgotten who holds what. It grants nothing new for `forMs`, as far as is known, so that holders can bring their leases back. */
    | { readonly type: 'storeForgot'; readonly forMs: number }
    /** It grants again, `afterMs` later. This process has brought so many leases back. */
    | { readonly type: 'storeRecovered'; readonly afterMs: number; readonly broughtBack: number }
  );

// Findings that an operator should read. The core and the stores call a `Report`; the lock module writes each finding into the log.

export type ReportLevel = 'error' | 'warning' | 'info';

export interface Finding {
  /** What the finding is about. Of several findings of one kind in a short time only one needs to be logged. */
  readonly kind: string;
  readonly level: ReportLevel;
  readonly message: string;
  /** True if it is still so when the line is written later than it was told. Without it, it is told as what was found. */
  readonly isStill?: () => boolean;
}

export type Report = (finding: Finding) => void;
