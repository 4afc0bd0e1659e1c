/**
 * The queues of a process. In each the calls for one lock share one request to the store and one lease; a queue exists as long as a call wants
 * or has its lock. Besides the main queue of a key there are queues aside, for calls that the store may let in together and that must not
 * wait for each other here:
 * - each call that names an owner or brings a ticket, because it passes the store's queue;
 * - calls that want a permit;
 * - readers that would miss their phase of reading in the main queue, behind a writer or behind readers with other options.
 *
 * They come and go with nearly every call, so they stand in a hash table of chains, which the queues themselves make. Neither an object nor a
 * Map is used, because of how V8 keeps them. An object makes a name of each new key, for which the whole process has one table: that took a
 * fifth of the library's time of an uncontended call. A Map that is full of deleted entries moves to a new table, and the old one points to
 * it: once that is in the old generation, a scavenge promotes all that is in the newer ones.
 */
import { BackgroundRelease } from '../lease/background-release.js';
import { askTheSame, type StoreLease } from '../lease/store-lease.js';
import type { Watchdog } from '../lease/watchdog.js';
import type { Clock } from '../port/clock.js';
import type { ResolvedDefaults, ResolvedOptions } from '../port/lock-options.js';
import type { LockStore, Wake } from '../port/lock-store.js';
import type { Call, ReasonToReject } from './call.js';
import { KeyQueue } from './key-queue.js';
import { MAX_IN_FLIGHT, MAX_IN_FLIGHT_OF_A_GROUP, Limiter } from './store-request.js';

const FIRST_CHAINS = 64;
const FNV_PRIME = 0x01000193;
/** Differs from process to process, so that nobody can choose keys that make one long chain. */
const SEED = Math.floor(Math.random() * 2 ** 32);

export class Queues {
  readonly background = new BackgroundRelease(this.store, this.clock, this.watchdog.schedule, this.defaults.maxLeaseMs);
  readonly limiter = new Limiter(MAX_IN_FLIGHT);
  /** In a Cluster the requests of each slot group have a limit of their own. */
  private readonly limiterOfGroups = new Map<number, Limiter>();
  /** How many requests were made. Only StoreRequest writes it. */
  sequence = 0;
  /** The heads of the chains. Their number is a power of two, and at least that of the queues. */
  private chains = chainsOf(FIRST_CHAINS);
  /** How many queues there are. Only this class writes it. */
  size = 0;
  /** The calls whose time to wait is over, in this turn of the event loop or the one before. */
  private overdue: Call[] = [];

  constructor(
    readonly store: LockStore,
    readonly clock: Clock,
    readonly watchdog: Watchdog,
    /** The name of this process in holder ids. */
    readonly process: string,
    readonly defaults: ResolvedDefaults,
  ) {
    store.onWake((wake) => this.wake(wake));
  }

  /** The queue in which this call has to wait. */
  queueFor({ key, options, ticket }: Call): KeyQueue {
    const { mode, owner, permits, minHoldMs } = options;
    if (permits !== undefined) return this.shared(key, options);
    if (owner !== undefined || ticket) return this.add(key, options);
    const main = this.shared(key, undefined);
    if (mode === 'write' || !main.keepsApart(options)) return main;
    return minHoldMs > 0 ? this.add(key, options) : this.shared(key, options);
  }

  /**
   * Ends a call whose time to wait is over. When the event loop was blocked its answer may be there, and is read first. All such calls end
   * in one step, so that none is served by what another gives back.
   */
  giveUpSoon(call: Call): void {
    if (this.overdue.push(call) > 1) return;
    const giveUp = (): void => {
      const { overdue } = this;
      this.overdue = [];
      for (const late of overdue) late.line?.giveUp(late, undefined);
    };
    this.clock.nextTurn(() => this.clock.nextTurn(giveUp));
  }

  /** Finds or adds the main queue of the key; or, with options, the queue aside from it whose calls want the same. */
  private shared(key: string, options: ResolvedOptions | undefined): KeyQueue {
    const hash = hashOf(key);
    for (let queue = this.chains[hash & (this.chains.length - 1)]; queue; queue = queue.chained) {
      if (queue.key !== key) continue;
      if (queue.sharedOptions === options || (options && queue.sharedOptions && askTheSame(queue.sharedOptions, options))) return queue;
    }
    return this.add(key, options, hash);
  }

  private add(key: string, options: ResolvedOptions | undefined, hash = hashOf(key)): KeyQueue {
    if (this.size === this.chains.length) this.spread();
    this.size += 1;
    const queue = new KeyQueue(key, hash, this, options);
    const at = hash & (this.chains.length - 1);
    queue.chained = this.chains[at];
    this.chains[at] = queue;
    return queue;
  }

  /** No call of the queue wants the lock or has it any more. */
  forget(queue: KeyQueue): void {
    const { chains } = this;
    const at = queue.hash & (chains.length - 1);
    let before: KeyQueue | undefined;
    for (let each = chains[at]; each !== queue; each = each.chained) {
      if (each === undefined) return;
      before = each;
    }
    if (before) before.chained = queue.chained;
    else chains[at] = queue.chained;
    this.size -= 1;
  }

  /** The limiter that the requests for locks of this slot group share. */
  limiterOf(group: number): Limiter {
    let limiter = this.limiterOfGroups.get(group);
    if (!limiter) this.limiterOfGroups.set(group, (limiter = new Limiter(MAX_IN_FLIGHT_OF_A_GROUP)));
    return limiter;
  }

  /** The lease of this lock that this process holds under this id. */
  leaseOf(key: string, id: string): StoreLease | undefined {
    return this.seek(key, (queue) => queue.leaseOf(id));
  }

  /** Rejects every call that waits and for whom `reasonFor` has a reason. */
  rejectWaiting(reasonFor: ReasonToReject): void {
    for (const queue of this.all()) queue.rejectWaiting(reasonFor);
  }

  /** Follows a wake of the store, which is only a hint (README, "What a wake may do"): a grant is judged by its own end. */
  private wake(wake: Wake): void {
    const { key, id } = wake;
    const lease = this.leaseOf(key, id);
    const request = this.seek(key, (queue) => queue.requestOf(id));
    switch (wake.kind) {
      case 'granted':
        return request?.heardOfGrant(wake.grant);
      case 'ask':
        return request?.ask();
      case 'contended':
        return (lease ?? request)?.heardOfWaiter();
      case 'lost':
        (lease ?? request)?.heardOfForce();
        return void (lease && this.watchdog.renewNow(lease));
      case 'stray':
        // A master that lags behind, or was restored from a snapshot, grants to waiters that have gone. The lock is released for the next.
        if (!lease && !request) this.background.release({ key, id, abandoned: true }, this.defaults.commandTimeoutMs);
    }
  }

  /** What `find` gives for the first queue of the key that has it. */
  private seek<T>(key: string, find: (queue: KeyQueue) => T | undefined): T | undefined {
    for (let queue = this.chains[hashOf(key) & (this.chains.length - 1)]; queue; queue = queue.chained) {
      const found = queue.key === key ? find(queue) : undefined;
      if (found) return found;
    }
    return undefined;
  }

  /** A copy of the queues: they may come and go while it is walked over. */
  private all(): KeyQueue[] {
    const all: KeyQueue[] = [];
    for (let queue of this.chains) for (; queue; queue = queue.chained) all.push(queue);
    return all;
  }

  private spread(): void {
    const all = this.all();
    const chains = (this.chains = chainsOf(2 * all.length));
    for (const queue of all) {
      const at = queue.hash & (chains.length - 1);
      queue.chained = chains[at];
      chains[at] = queue;
    }
  }
}

function chainsOf(count: number): (KeyQueue | undefined)[] {
  return new Array<KeyQueue | undefined>(count).fill(undefined);
}

/** FNV-1a of its UTF-16. */
function hashOf(key: string): number {
  let hash = SEED;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), FNV_PRIME);
  return hash ^ (hash >>> 15);
}
