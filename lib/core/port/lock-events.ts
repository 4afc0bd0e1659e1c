/** What happens to locks in this process, for those who watch: logs, metrics, tests. */
import type { LockError } from './errors.js';
import type { ReleaseOutcome } from './lease.js';
import type { LockMode } from './lock-mode.js';

interface LockEventBase {
  /** The number of the call that it is about, the same in all events of one call; undefined where it is about a lease. */
  readonly call: number | undefined;
  readonly key: string;
  readonly mode: LockMode;
  /** `Class.method` of the request, when a decorator made it. */
  readonly label: string | undefined;
  /** The key template before rendering, when there is one. */
  readonly template: string | undefined;
}

export type LockEvent =
  /** A hold began. `waitedMs`: since the request; `nested`: inside another hold of this process, without a command to the store. */
  | (LockEventBase & { readonly type: 'granted'; readonly fence: number; readonly nested: boolean; readonly waitedMs: number })
  /** A request could not be served at once. */
  | (LockEventBase & { readonly type: 'waiting' })
  /** A request gave up: the lock stayed busy. */
  | (LockEventBase & { readonly type: 'busy'; readonly waitedMs: number })
  /** A hold ended. */
  | (LockEventBase & {
      readonly type: 'released';
      readonly fence: number;
      readonly nested: boolean;
      readonly heldMs: number;
      readonly outcome: ReleaseOutcome;
    })
  /** A hold's lease ended before the hold did. */
  | (LockEventBase & { readonly type: 'lost'; readonly fence: number; readonly nested: boolean; readonly heldMs: number; readonly cause: LockError })
  /** A renewal got no answer; it is tried again until trust ends. */
  | (LockEventBase & { readonly type: 'renewFailed'; readonly cause: LockError })
  /** A request was given up by its own `signal`. */
  | (LockEventBase & { readonly type: 'cancelled'; readonly waitedMs: number })
  /** The function of a leader failed with `cause`, which may be anything; its process stands for election again after `restMs`. */
  | (LockEventBase & { readonly type: 'termFailed'; readonly fence: number; readonly restMs: number; readonly cause: unknown })
  /** A request failed otherwise: the store could not be asked, the module was closed, the lock was asked for in a way that cannot work. */
  | (LockEventBase & { readonly type: 'failed'; readonly waitedMs: number; readonly cause: LockError });
