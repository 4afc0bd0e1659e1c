/**
 * Counts the calls of this process that wait for a lock, from events. The store does not know them: many callers of one lock in a
 * process have one place in its queue, or none while the process holds the lock itself.
 */
import type { LockEvent } from '../core/port/lock-events.js';
import type { LockMode } from '../core/port/lock-mode.js';

/** How many calls of one method wait for one lock. */
export interface WaitingCalls {
  readonly mode: LockMode;
  readonly label: string | undefined;
  readonly count: number;
}

/** One call that waits. */
interface Call {
  readonly key: string;
  readonly mode: LockMode;
  readonly label: string | undefined;
}

/** How many calls are counted at most. With more the exact number does not matter. */
const MOST_CALLS = 10_000;

export class CallsThatWait {
  /** The calls that wait, by number. An entry is removed when its call is granted or gives up. */
  private readonly calls = new Map<number, Call>();

  record({ type, call, key, mode, label }: LockEvent): void {
    if (call === undefined) return;
    switch (type) {
      case 'waiting':
        if (this.calls.size < MOST_CALLS || this.calls.has(call)) this.calls.set(call, { key, mode, label });
        return;
      case 'granted':
      case 'busy':
      case 'cancelled':
      case 'failed':
        this.calls.delete(call);
        return;
      default:
    }
  }

  of(key: string): readonly WaitingCalls[] {
    const groups = new Map<string, WaitingCalls>();
    for (const call of this.calls.values()) {
      if (call.key !== key) continue;
      const { mode, label } = call;
      const name = `${mode} ${label ?? ''}`;
      groups.set(name, { mode, label, count: (groups.get(name)?.count ?? 0) + 1 });
    }
    return [...groups.values()];
  }
}
