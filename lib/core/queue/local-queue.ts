/**
 * All callers of this process, by key: one asker in the store per key, the lease handed on among the callers.
 * An entry lives while somebody wants or has the lock.
 */
import { BackgroundRelease } from '../lease/background-release.js';
import { Caller } from './caller.js';
import type { Clock } from '../port/clock.js';
import type { Desk } from './desk.js';
import { IdTable } from '../lease/id-table.js';
import { KeyQueue } from './key-queue.js';
import type { Turn } from './turn.js';
import type { ResolvedDefaults, ResolvedOptions } from '../port/lock-options.js';
import type { LockStore, Wake } from '../port/lock-store.js';
import { Traffic } from './traffic.js';
import type { Watchdog } from '../lease/watchdog.js';

export class LocalQueue {
  private readonly queues = new IdTable<KeyQueue>();
  private readonly desk: Desk;
  readonly background: BackgroundRelease;
  private sequence = 0;
  /** Queues made for requests that wait for no other here. */
  private ofOne = 0;

  constructor(
    store: LockStore,
    clock: Clock,
    private readonly watchdog: Watchdog,
    process: string,
    private readonly defaults: Pick<ResolvedDefaults, 'handOn' | 'commandTimeoutMs'>,
  ) {
    this.background = new BackgroundRelease(store, clock, watchdog.schedule);
    this.desk = {
      store,
      clock,
      watchdog,
      background: this.background,
      traffic: new Traffic(),
      commandTimeoutMs: defaults.commandTimeoutMs,
      waiting: new IdTable(),
      nextId: () => `${process}.${(this.sequence++).toString(36)}`,
    };
    store.onWake((wake) => this.wake(wake));
  }

  /** How many keys are wanted or held. */
  get size(): number {
    return this.queues.size;
  }

  /** Waits for a turn on the lock. Rejects with LockTimeoutError, LockStoreError, LockUsageError or the signal's reason. */
  acquire(key: string, options: ResolvedOptions, until: number, insideHold: boolean, onWaiting: () => void): Promise<readonly Turn[]> {
    return new Promise((resolve, reject) => {
      const settle = { resolve: (turn: Turn) => resolve([turn]), reject };
      const caller = new Caller<Turn>(options, until, insideHold, onWaiting, this.watchdog.schedule, settle);
      this.queueFor(key, options).enter(caller);
    });
  }

  /** Rejects every caller that waits and for whom `reasonFor` has a reason. */
  rejectWaiting(reasonFor: (key: string, insideHold: boolean) => Error | undefined): void {
    for (const queue of this.queues.values()) queue.rejectWaiting(reasonFor);
  }

  private queueFor(key: string, options: ResolvedOptions): KeyQueue {
    const name = this.nameFor(key, options);
    const present = this.queues.get(name);
    if (present) return present;
    const queue = new KeyQueue(key, this.desk, this.defaults.handOn, () => {
      if (this.queues.get(name) === queue) this.queues.delete(name);
    });
    this.queues.set(name, queue);
    return queue;
  }

  /**
   * Requests of one owner pass the queue, so they must not wait for each other here: each asks the store itself. So do readers
   * beside waiting readers with whom they can share no lease: the store lets all of them in together.
   */
  private nameFor(key: string, options: ResolvedOptions): string {
    const { owner, minHoldMs, maxHoldMs, leaseMs, renew, minReplicas } = options;
    if (owner !== undefined) return `${key}\0${this.ofOne++}`;
    if (!this.queues.get(key)?.parts(options)) return key;
    return minHoldMs > 0 ? `${key}\0${this.ofOne++}` : `${key}\0${Math.min(leaseMs, maxHoldMs)} ${leaseMs} ${renew} ${minReplicas}`;
  }

  /** Also while the store has not answered yet, when nobody but the question knows of its id. */
  private isAskedFor(id: string): boolean {
    for (const queue of this.queues.values()) if (queue.asksFor(id)) return true;
    return false;
  }

  /** Wakes are hints: a grant counts by its own end, everything else makes us ask. */
  private wake(wake: Wake): void {
    switch (wake.kind) {
      case 'granted':
        return this.desk.waiting.get(wake.id)?.wake(wake.grant);
      case 'ask':
        return this.desk.waiting.get(wake.id)?.wake(undefined);
      case 'stray':
        // A master that knows only the past, or an old snapshot, grants to those who have gone: the next would wait for their leases.
        if (!this.watchdog.find(wake.id) && !this.isAskedFor(wake.id)) this.background.release({ ...wake, abandoned: true }, this.defaults.commandTimeoutMs);
        return;
      case 'contended': {
        const lease = this.watchdog.find(wake.id);
        if (lease) lease.contended = true;
        return;
      }
      case 'lost': {
        const lease = this.watchdog.find(wake.id);
        if (lease) void this.watchdog.renewNow(lease);
      }
    }
  }
}
