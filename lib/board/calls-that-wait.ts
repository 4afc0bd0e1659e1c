/**
 * Counts the calls of this process that wait for a lock, from events. The store does not know them: many callers of one lock in a
 * process have one place in its queue, or none while the process holds the lock itself.
 */
import { roleOf } from '../core/key/check-key.js';
import type { Clock } from '../core/port/clock.js';
import type { LockEvent } from '../core/port/lock-events.js';
import type { LockMode } from '../core/port/lock-options.js';

/** How many calls of one method wait for one lock. */
export interface CallGroup {
  readonly mode: LockMode;
  readonly label: string | undefined;
  readonly count: number;
  /** How long the first of them has waited, in ms. */
  readonly longestMs: number;
}

/** One call that waits. */
interface Call {
  readonly key: string;
  readonly mode: LockMode;
  readonly label: string | undefined;
  /** When it began to wait, in clock.now() time. */
  readonly since: number;
}

/** How many calls are counted at most. With more the exact number does not matter. */
const MAX_CALLS = 10_000;

export class CallsThatWait {
  /** The calls that wait, by number. An entry is removed when its call is granted, has adopted its ticket, or gives up. */
  private readonly calls = new Map<number, Call>();

  constructor(private readonly clock: Clock) {}

  record({ type, call, key, mode, label }: LockEvent): void {
    if (call === undefined) return;
    switch (type) {
      case 'waiting': {
        const known = this.calls.get(call);
        if (known === undefined && this.calls.size >= MAX_CALLS) return;
        // A call for several locks waits for one after the other.
        this.calls.set(call, { key, mode, label, since: known?.since ?? this.clock.now() });
        return;
      }
      case 'granted':
      case 'adopted':
      case 'busy':
      case 'cancelled':
      case 'failed':
        this.calls.delete(call);
        return;
      default:
    }
  }

  of(key: string): readonly CallGroup[] {
    const groups = new Map<string, CallGroup>();
    for (const call of this.calls.values()) {
      if (call.key !== key) continue;
      const { mode, label } = call;
      const name = `${mode} ${label ?? ''}`;
      const group = groups.get(name) ?? { mode, label, count: 0, longestMs: 0 };
      groups.set(name, { ...group, count: group.count + 1, longestMs: Math.max(group.longestMs, this.clock.now() - call.since) });
    }
    return [...groups.values()];
  }

  /** All calls that wait, without those that stand for election: they wait for as long as another process leads. */
  all(): Pick<CallGroup, 'count' | 'longestMs'> {
    const waits = [...this.calls.values()].filter(({ key }) => roleOf(key) === undefined).map(({ since }) => this.clock.now() - since);
    return { count: waits.length, longestMs: waits.reduce((longest, ms) => Math.max(longest, ms), 0) };
  }
}
