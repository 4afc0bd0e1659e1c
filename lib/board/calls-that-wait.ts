/**
 * The calls of this process that wait for a lock, counted from events. A process that has many callers of one lock stands
 * in the store's queue once, or not at all while the lock is its own, so the store cannot tell of them.
 */
import type { LockEvent } from '../core/port/lock-events.js';
import type { LockMode } from '../core/port/lock-mode.js';

/** Calls of one method that wait for one lock. */
export interface WaitingCalls {
  readonly mode: LockMode;
  readonly label: string | undefined;
  readonly count: number;
}

/** One call that waits: for which lock, and how. */
interface Call {
  readonly key: string;
  readonly mode: LockMode;
  readonly label: string | undefined;
}

/** Beyond that there is a flood, and the exact number does not matter. */
const MOST_CALLS = 10_000;

export class CallsThatWait {
  /** By the number of the call; an entry goes when the call is served or gives up. */
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
