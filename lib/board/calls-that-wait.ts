/**
 * The calls of this process that wait for a lock, counted from events. A process that has many callers of one lock stands
 * in the store's queue once, or not at all while the lock is its own, so the store cannot tell of them.
 */
import type { Clock } from '../core/port/clock.js';
import type { LockEvent } from '../core/port/lock-events.js';
import type { LockMode } from '../core/port/lock-mode.js';

/** Calls of one method that wait for one lock. */
export interface WaitingCalls {
  readonly mode: LockMode;
  readonly label: string | undefined;
  readonly count: number;
}

interface Call {
  readonly mode: LockMode;
  readonly label: string | undefined;
  readonly since: number;
}

type RequestEnd = Extract<LockEvent, { type: 'granted' | 'busy' | 'cancelled' | 'failed' }>;

/** Beyond that there is a flood, and the exact number does not matter. */
const MOST_CALLS = 10_000;
/** Between the moment that an event speaks of and our look at the clock. */
const CLOCK_READS_MS = 1;

export class CallsThatWait {
  /** By key; an entry goes with the last call that waits for it. */
  private readonly calls = new Map<string, Call[]>();
  private count = 0;

  constructor(private readonly clock: Clock) {}

  record(event: LockEvent): void {
    switch (event.type) {
      case 'waiting':
        return this.add(event);
      case 'granted':
      case 'busy':
      case 'cancelled':
      case 'failed':
        return this.count === 0 ? undefined : this.end(event);
      default:
    }
  }

  of(key: string): readonly WaitingCalls[] {
    const groups = new Map<string, WaitingCalls>();
    for (const { mode, label } of this.calls.get(key) ?? []) {
      const name = `${mode} ${label ?? ''}`;
      groups.set(name, { mode, label, count: (groups.get(name)?.count ?? 0) + 1 });
    }
    return [...groups.values()];
  }

  private add({ key, mode, label }: LockEvent): void {
    if (this.count >= MOST_CALLS) return;
    const calls = this.calls.get(key) ?? [];
    if (calls.length === 0) this.calls.set(key, calls);
    calls.push({ mode, label, since: this.clock.now() });
    this.count += 1;
  }

  /**
   * An event does not say which request it is about, but since when it ran: only a call that began to wait within that time
   * can be it. So a request which never waited takes nobody off the list but, at worst, one that came while it was on its way
   * to the store; the number is about right. The end of a request for several locks names the first of them, while it may
   * have waited for another.
   */
  private end(event: RequestEnd): void {
    const began = this.clock.now() - event.waitedMs - CLOCK_READS_MS;
    if (this.take(event.key, event, began) || !mayHaveSeveralKeys(event)) return;
    for (const key of [...this.calls.keys()]) if (this.take(key, event, began)) return;
  }

  private take(key: string, { mode, label }: RequestEnd, began: number): boolean {
    const calls = this.calls.get(key);
    const at = calls?.findIndex((call) => call.since >= began && call.mode === mode && call.label === label) ?? -1;
    if (calls === undefined || at < 0) return false;
    calls.splice(at, 1);
    this.count -= 1;
    if (calls.length === 0) this.calls.delete(key);
    return true;
  }
}

function mayHaveSeveralKeys({ template }: LockEvent): boolean {
  return template === undefined || template.includes(' ');
}
