/**
 * One lock module as the board sees it: the locks of all processes, from its store, and what happened in this process, from events.
 */
import type { Subscription } from 'rxjs';
import type { Clock } from '../core/port/clock.js';
import { messageOf } from '../core/port/errors.js';
import type { LockStore } from '../core/port/lock-store.js';
import { overviewOf, rowOf, type LockOverview, type LockRow, type WaiterRow } from './lock-overview.js';
import type { LockService } from '../lock.service.js';
import { CallsThatWait, type CallGroup } from './calls-that-wait.js';
import { LockHistory, type HistoryView } from './lock-history.js';

/** What the board needs of a LockService. */
export type WatchedService = Pick<LockService, 'events' | 'list' | 'inspect' | 'forceRelease'>;
/** What the board needs of a store. */
type WatchedStore = Pick<LockStore, 'summary' | 'recovery'>;

interface BoardWaiter extends Omit<WaiterRow, 'id'> {
  /** For how long the board has seen it wait, in ms; it may have waited for longer. */
  readonly seenForMs: number;
}

interface BoardRow extends Omit<LockRow, 'waiters'> {
  readonly waiters: readonly BoardWaiter[];
  /** The calls of this process that wait for the lock. */
  readonly callsHere: readonly CallGroup[];
}

export interface InstanceView extends Omit<LockOverview, 'rows'> {
  readonly name: string;
  readonly rows: readonly BoardRow[];
  readonly history: HistoryView;
  /** All calls of this process that wait for locks. */
  readonly here: Pick<CallGroup, 'count' | 'longestMs'>;
  /** Which store it is, and what is switched off there, as in the line of the log at boot; undefined for a store that does not say. */
  readonly store?: WatchedStore['summary'];
  /** Undefined for a store that cannot forget. */
  readonly recovery?: WatchedStore['recovery'];
  /** Why the store did not respond, in which case there are no rows. */
  readonly problem?: string | undefined;
}

const NOTHING = { held: 0, waitedFor: 0, waiting: 0, processes: 0, led: 0, inGrace: 0, rows: [], more: 0 };

export class WatchedLocks {
  private readonly history: LockHistory;
  private readonly calls: CallsThatWait;
  private readonly waiters: SeenWaiters;
  private readonly subscription: Subscription;

  constructor(
    readonly name: string,
    private readonly locks: WatchedService,
    clock: Clock,
    private readonly store?: WatchedStore,
  ) {
    this.history = new LockHistory(clock);
    this.calls = new CallsThatWait(clock);
    this.waiters = new SeenWaiters(clock);
    this.subscription = locks.events.subscribe((event) => {
      this.history.record(event);
      this.calls.record(event);
    });
  }

  /** The present state of the module's locks. It never rejects: when the store does not answer, the view says so. */
  async view(mostRows: number): Promise<InstanceView> {
    try {
      const { rows, ...sums } = await overviewOf(this.locks.list(), mostRows);
      this.waiters.look(rows.flatMap(({ waiters }) => waiters.map(({ id }) => id)));
      return { ...sums, ...this.ofThisProcess(), rows: rows.map((row) => this.withTimes(row)) };
    } catch (error) {
      return { ...NOTHING, ...this.ofThisProcess(), problem: messageOf(error) };
    }
  }

  /** One lock by its key. @throws LockStoreError, LockKeyError */
  async inspect(key: string): Promise<BoardRow> {
    return this.withTimes(rowOf(await this.locks.inspect(key)));
  }

  /** Takes the lock from the holder with this fence. False when there is none. @throws LockStoreError, LockKeyError */
  forceRelease(key: string, fence: number): Promise<boolean> {
    return this.locks.forceRelease(key, { fence });
  }

  stop(): void {
    this.subscription.unsubscribe();
  }

  private ofThisProcess(): Pick<InstanceView, 'name' | 'history' | 'here' | 'store' | 'recovery'> {
    const { summary: store, recovery } = this.store ?? {};
    const known = recovery && { recoveries: recovery.recoveries, recoversForMs: recovery.recoversForMs };
    return { name: this.name, history: this.history.view(), here: this.calls.all(), store, recovery: known };
  }

  private withTimes(row: LockRow): BoardRow {
    const waiters = row.waiters.map(({ id, ...waiter }) => ({ ...waiter, seenForMs: this.waiters.forMs(id) }));
    return { ...row, waiters, callsHere: this.calls.of(row.key) };
  }
}

/**
 * For how long waiters have been seen to wait. The store does not know when a request came, so the time counts from the first look that
 * showed it.
 */
export class SeenWaiters {
  /** When each waiter was seen first, in clock.now() time, by its id. An entry goes when a look does not show the waiter any more. */
  private first = new Map<string, number>();

  constructor(private readonly clock: Clock) {}

  /** Notes whom a look has shown, and forgets the others. */
  look(ids: Iterable<string>): void {
    const now = this.clock.now();
    const seen = new Map<string, number>();
    for (const id of ids) seen.set(id, this.first.get(id) ?? now);
    this.first = seen;
  }

  /** How long ago the waiter was seen first, in ms; 0 for one that no look has shown. */
  forMs(id: string): number {
    const now = this.clock.now();
    return now - (this.first.get(id) ?? now);
  }
}
