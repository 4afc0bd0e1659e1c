/**
 * One lock module as the board sees it: the locks of all processes, from its store, and what happened in this process, from events.
 */
import type { Subscription } from 'rxjs';
import type { Clock } from '../core/port/clock.js';
import { overviewOf, rowOf, type LockOverview, type LockRow } from './lock-overview.js';
import type { LockService } from '../lock.service.js';
import { CallsThatWait, type WaitingCalls } from './calls-that-wait.js';
import { LockHistory, type HistoryView } from './lock-history.js';

/** What the board needs of a LockService. */
export type Locks = Pick<LockService, 'events' | 'list' | 'inspect' | 'forceRelease'>;

export interface BoardRow extends LockRow {
  /** The calls of this process that wait for the lock. */
  readonly callsHere: readonly WaitingCalls[];
}

export interface InstanceView extends Omit<LockOverview, 'rows'> {
  readonly name: string;
  readonly rows: readonly BoardRow[];
  readonly history: HistoryView;
  /** Why the store could not be asked, in which case there are no rows. */
  readonly problem?: string | undefined;
}

export class WatchedLocks {
  private readonly history: LockHistory;
  private readonly calls: CallsThatWait;
  private readonly subscription: Subscription;

  constructor(
    readonly name: string,
    private readonly locks: Locks,
    clock: Clock,
  ) {
    this.history = new LockHistory(clock);
    this.calls = new CallsThatWait();
    this.subscription = locks.events.subscribe((event) => {
      this.history.record(event);
      this.calls.record(event);
    });
  }

  /** The present state of the module's locks. It never rejects: when the store does not answer, the view says so. */
  async view(mostRows: number): Promise<InstanceView> {
    try {
      const { rows, ...sums } = await overviewOf(this.locks.list(), mostRows);
      return { ...sums, name: this.name, rows: rows.map((row) => this.withCalls(row)), history: this.history.view() };
    } catch (error) {
      const nothing = { held: 0, waitedFor: 0, waiting: 0, rows: [], more: 0 };
      return { ...nothing, name: this.name, history: this.history.view(), problem: messageOf(error) };
    }
  }

  /** One lock by its key. @throws LockStoreError, LockKeyError */
  async inspect(key: string): Promise<BoardRow> {
    return this.withCalls(rowOf(await this.locks.inspect(key)));
  }

  /** Takes the lock from the holder with this fence. False when there is none. @throws LockStoreError, LockKeyError */
  forceRelease(key: string, fence: number): Promise<boolean> {
    return this.locks.forceRelease(key, { fence });
  }

  stop(): void {
    this.subscription.unsubscribe();
  }

  private withCalls(row: LockRow): BoardRow {
    return { ...row, callsHere: this.calls.of(row.key) };
  }
}

/** The message of an error. It is read without instanceof, because in the realm of a test runner errors are no instances of Error. */
export function messageOf(error: unknown): string {
  const message: unknown = typeof error === 'object' && error !== null && 'message' in error ? error.message : error;
  return String(message);
}
