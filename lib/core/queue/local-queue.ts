/**
 * Finds the KeyQueue of a lock, in which the calls of this process share one request to the store and one lease. A queue exists
 * as long as a call wants or has its lock.
 */
import { BackgroundRelease } from '../lease/background-release.js';
import { askTheSame, type StoreLease } from '../lease/store-lease.js';
import type { Watchdog } from '../lease/watchdog.js';
import type { Clock } from '../port/clock.js';
import type { ResolvedDefaults, ResolvedOptions } from '../port/lock-options.js';
import type { LockStore, Wake } from '../port/lock-store.js';
import type { Call, ReasonToReject } from './call.js';
import { KeyQueue } from './key-queue.js';
import { hashOf, KeyTable } from './key-table.js';
import { MAX_IN_FLIGHT, MAX_IN_FLIGHT_OF_A_GROUP, Traffic, type StoreRequest } from './store-request.js';

export class LocalQueue {
  readonly background: BackgroundRelease;
  private readonly queues = new KeyTable();
  /**
   * Queues aside from the main queue of a key, for calls that the store may let in together and that must not wait for each other here:
   * - each call that names an owner or brings a ticket, because it passes the store's queue;
   * - calls that want a permit;
   * - readers that would miss their phase of reading in the main queue, behind a writer or behind readers with other options.
   */
  private readonly aside = new Map<string, Set<KeyQueue>>();
  readonly commandTimeoutMs: number;
  readonly handOn: number;
  readonly traffic = new Traffic(MAX_IN_FLIGHT);
  /** Gives the number of a key's slot group in a Cluster, where the requests of each group have a limit of their own; undefined elsewhere. */
  readonly groupOf: ((key: string) => number) | undefined;
  private readonly trafficOfGroups = new Map<number, Traffic>();
  private sequence = 0;

  constructor(
    readonly store: LockStore,
    readonly clock: Clock,
    readonly watchdog: Watchdog,
    private readonly process: string,
    { handOn, commandTimeoutMs }: Pick<ResolvedDefaults, 'handOn' | 'commandTimeoutMs'>,
  ) {
    this.groupOf = store.capabilities.groupOf;
    this.background = new BackgroundRelease(store, clock, watchdog.schedule);
    this.commandTimeoutMs = commandTimeoutMs;
    this.handOn = handOn;
    store.onWake((wake) => this.wake(wake));
  }

  /** How many keys are wanted or held. */
  get size(): number {
    return this.queues.size + this.aside.size;
  }

  /** A holder id that was never used before. */
  nextId(): string {
    return `${this.process}.${(this.sequence++).toString(36)}`;
  }

  /** The lease of this lock that this process holds under this id. */
  leaseOf(key: string, id: string): StoreLease | undefined {
    for (const queue of this.queuesOf(key)) {
      const lease = queue.leaseOf(id);
      if (lease) return lease;
    }
    return undefined;
  }

  /** Rejects every call that waits and for whom `reasonFor` has a reason. */
  rejectWaiting(reasonFor: ReasonToReject): void {
    for (const queue of this.queues.all()) queue.rejectWaiting(reasonFor);
    for (const queues of this.aside.values()) for (const queue of queues) queue.rejectWaiting(reasonFor);
  }

  private queuesOf(key: string): KeyQueue[] {
    const queue = this.queues.get(key);
    return [...(queue ? [queue] : []), ...(this.aside.get(key) ?? [])];
  }

  /** The queue in which this call has to wait. */
  queueFor({ key, options, ticket }: Call): KeyQueue {
    if (options.permits !== undefined) return this.alike(key, options) ?? this.addAside(new KeyQueue(key, this, options));
    if (options.owner !== undefined || ticket) return this.addAside(new KeyQueue(key, this, options));
    const hash = hashOf(key);
    const queue = this.queues.get(key, hash) ?? this.queues.add(new KeyQueue(key, this), hash);
    if (options.mode === 'write' || !queue.keepsApart(options)) return queue;
    return (options.minHoldMs === 0 && this.alike(key, options)) || this.addAside(new KeyQueue(key, this, options));
  }

  /** What the requests for locks of this slot group share. */
  trafficOf(group: number): Traffic {
    let traffic = this.trafficOfGroups.get(group);
    if (!traffic) this.trafficOfGroups.set(group, (traffic = new Traffic(MAX_IN_FLIGHT_OF_A_GROUP)));
    return traffic;
  }

  /** A queue aside from the main one whose calls want the same. */
  private alike(key: string, options: ResolvedOptions): KeyQueue | undefined {
    for (const queue of this.aside.get(key) ?? []) if (queue.sharedOptions && askTheSame(queue.sharedOptions, options)) return queue;
    return undefined;
  }

  private addAside(queue: KeyQueue): KeyQueue {
    const present = this.aside.get(queue.key);
    if (present) present.add(queue);
    else this.aside.set(queue.key, new Set([queue]));
    return queue;
  }

  /** No call of the queue wants the lock or has it any more. */
  forget(queue: KeyQueue): void {
    if (!queue.sharedOptions) return this.queues.remove(queue);
    const others = this.aside.get(queue.key);
    if (others?.delete(queue) && others.size === 0) this.aside.delete(queue.key);
  }

  /** Follows a wake of the store, which is only a hint (README, "What a wake may do"): a grant is judged by its own end. */
  private wake(wake: Wake): void {
    const { key, id } = wake;
    const lease = this.leaseOf(key, id);
    switch (wake.kind) {
      case 'granted':
        return this.requestOf(key, id)?.wake(wake.grant);
      case 'ask':
        return this.requestOf(key, id)?.wake();
      case 'contended':
        return lease?.heardOfWaiter();
      case 'lost':
        lease?.heardOfForce();
        return void (lease && this.watchdog.renewNow(lease));
      case 'stray':
        // A master that lags behind, or was restored from a snapshot, grants to waiters that have gone. The lock is released for the next.
        if (!lease && !this.requestOf(key, id)) this.background.release({ key, id, abandoned: true }, this.commandTimeoutMs);
    }
  }

  private requestOf(key: string, id: string): StoreRequest | undefined {
    for (const queue of this.queuesOf(key)) {
      const request = queue.requestOf(id);
      if (request) return request;
    }
    return undefined;
  }
}
