/**
 * LockService: the one path through core that decorators, `withLock` and `acquire` share.
 */
import { Subject, type Observable } from 'rxjs';
import { keysInOrder } from './core/key/call-key.js';
import { keptAlive, systemClock, type Clock } from './core/port/clock.js';
import { LockTimeoutError, LockUsageError } from './core/port/errors.js';
import { Announcer } from './core/hold/announcer.js';
import { Hold, type HoldHost } from './core/hold/hold.js';
import { HoldContext } from './core/hold/hold-context.js';
import { checkKey } from './core/key/check-key.js';
import type { Lease } from './core/port/lease.js';
import { LocalQueue } from './core/queue/local-queue.js';
import type { LockEvent } from './core/port/lock-events.js';
import type { LockMode } from './core/port/lock-mode.js';
import { resolveDefaults, resolveOptions, type CallSite, type LockDefaults, type LockOptions } from './core/port/lock-options.js';
import type { Report } from './core/port/report.js';
import type { ResolvedDefaults, ResolvedOptions, WithLockOptions } from './core/port/lock-options.js';
import type { OptionList } from './core/port/option-names.js';
import { ACQUIRE_OPTIONS, checkForceRelease, checkList, checkMode, type ForceReleaseOptions } from './core/port/request-options.js';
import type { ListOptions, LockState, LockStore } from './core/port/lock-store.js';
import { optionsAndWork, runInHold, type Work } from './core/hold/run-in-hold.js';
import { ShutdownGate } from './core/hold/shutdown-gate.js';
import type { Entered } from './core/hold/hold-part.js';
import { enterAll } from './core/hold/several-keys.js';
import { Timeouts } from './core/hold/timeouts.js';
import { WaitingCalls } from './core/hold/waiting-calls.js';
import { Wish, type WaitWatch } from './core/hold/wish.js';
import { Watchdog } from './core/lease/watchdog.js';

/** One key, or several locks that are taken together or not at all. */
export type LockKey = string | readonly string[];

export interface LockServiceOptions extends LockDefaults {
  readonly store: LockStore;
  /** Names this process in holder ids; the same that the store was made with. */
  readonly process: string;
  readonly clock?: Clock;
  /** Told what an operator should read; without it nobody is. */
  readonly report?: Report | undefined;
}

/** A call, checked and complete. */
interface Request {
  /** Its number in this process. */
  readonly call: number;
  readonly keys: readonly string[];
  readonly options: ResolvedOptions;
  readonly since: number;
}

export class LockService {
  /** What happens to locks in this process, told at the moment it happens; completes when the module is closed. */
  readonly events: Observable<LockEvent>;
  private readonly eventSubject = new Subject<LockEvent>();
  private readonly store: LockStore;
  private readonly clock: Clock;
  private readonly defaults: ResolvedDefaults;
  private readonly context = new HoldContext();
  private readonly queue: LocalQueue;
  private readonly shutdown: ShutdownGate;
  private readonly announcer: Announcer;
  private readonly timeouts: Timeouts;
  private readonly host: HoldHost;
  private readonly waitWatch: WaitWatch;
  /** How many calls there have been. */
  private calls = 0;

  constructor(options: LockServiceOptions) {
    this.store = options.store;
    this.defaults = resolveDefaults(options);
    this.clock = options.clock ?? systemClock;
    this.events = this.eventSubject.asObservable();
    const { store, clock, context, defaults } = this;
    const announcer = (this.announcer = new Announcer(this.eventSubject, options.report));
    const watchdog = new Watchdog(store, clock, (lease, cause) => {
      announcer.renewFailed(lease, cause, lease.trustedUntil - clock.now());
    });
    this.queue = new LocalQueue(store, clock, watchdog, options.process, defaults);
    this.shutdown = new ShutdownGate(this.queue, watchdog, clock, defaults, (holds) => announcer.overstayed(holds, defaults.shutdownGraceMs));
    const waiting = new WaitingCalls(clock);
    this.waitWatch = {
      waitBegan: (wish) => {
        announcer.waiting(wish);
        return waiting.begin(wish);
      },
    };
    this.timeouts = new Timeouts(store, clock, watchdog.schedule, this.queue, context, waiting);
    this.host = {
      store,
      clock,
      watchdog,
      context,
      defaults,
      lost: (hold, cause) => announcer.lost(hold, cause, !this.shutdown.holdLost(hold)),
      ended: (hold, outcome) => {
        if (outcome !== 'lost') this.shutdown.holdEnded();
        if (this.eventSubject.observed) announcer.released(hold, outcome);
      },
    };
  }

  /** Connects to the store and checks it; the process does not end by itself before. @throws LockStoreError */
  open(): Promise<void> {
    return keptAlive(this.clock, () => this.store.open());
  }

  /**
   * Acquires, runs `fn`, releases. A call inside `fn` that wants the same key runs inside this hold.
   * @throws LockTimeoutError, LockStoreError, LockKeyError, LockUsageError, LockClosedError before `fn` ran
   * @throws LockLostError after `fn` ended, when its lease was lost before (unless `onLost: 'ignore'`)
   */
  withLock<T>(key: LockKey, fn: Work<T>): Promise<T>;
  withLock<T>(key: LockKey, options: WithLockOptions, fn: Work<T>): Promise<T>;
  withLock<T>(key: LockKey, second: Work<T> | (WithLockOptions & CallSite), third?: Work<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const [options, fn] = optionsAndWork(second, third);
      const request = this.request(key, options);
      this.entered(request).then(
        (entered) => runInHold(this.begin(request, entered), fn, resolve, reject),
        (error: unknown) => {
          const reason = this.refused(request, error);
          if (isExplained(request)) resolve(this.timeouts.reject(reason));
          else reject(reason);
        },
      );
    });
  }

  /**
   * Acquires and leaves the release to the caller; `await using` does it. Waits up to `waitMs`.
   * @throws LockTimeoutError, LockStoreError, LockKeyError, LockUsageError, LockClosedError; LockLostError when one of
   * several keys was lost while the others were waited for
   */
  async acquire(key: LockKey, options?: LockOptions): Promise<Lease> {
    return this.hold(this.request(key, options, ACQUIRE_OPTIONS));
  }

  /** Like {@link acquire} without waiting; null when the lock is busy. */
  async tryAcquire(key: LockKey, options?: LockOptions): Promise<Lease | null> {
    try {
      return await this.hold(this.request(key, options, ACQUIRE_OPTIONS, 0));
    } catch (error) {
      if (error instanceof LockTimeoutError) return null;
      throw error;
    }
  }

  /** The lease that the running code is inside of, the innermost one or that of `key`. */
  currentLease(key?: string): Lease | undefined {
    return this.context.find(key === undefined ? undefined : checkKey(key));
  }

  /** The lease of `key` that the running code is inside of. @throws LockUsageError when there is none, LockLostError when it was lost */
  assertLocked(key: string, mode: LockMode = 'write'): Lease {
    checkMode(mode, key);
    const hold = this.context.find(checkKey(key), mode);
    if (!hold) {
      const found = this.context.find(checkKey(key)) ? 'it holds it for reading only' : 'it does not hold it';
      const wanted = mode === 'write' ? 'writing' : 'reading';
      throw new LockUsageError(`Lock '${key}' must be held for ${wanted} by the code that runs here, but ${found}.`, { key });
    }
    hold.assertHeld();
    return hold;
  }

  /** Whether anybody holds the lock (in this mode) now, as the store sees it. @throws LockStoreError */
  async isLocked(key: string, mode?: LockMode): Promise<boolean> {
    checkMode(mode, key);
    const state = await this.inspect(key);
    return state.mode !== null && (mode === undefined || state.mode === mode);
  }

  /** Who holds the lock and who waits for it. @throws LockStoreError */
  async inspect(key: string): Promise<LockState> {
    return this.store.inspect(checkKey(key));
  }

  /** Every lock of this prefix that is held or waited for, without order. @throws LockUsageError; LockStoreError, also in the midst of the walk */
  list(options?: ListOptions): AsyncIterable<LockState> {
    checkList(options);
    return this.store.list(options);
  }

  /**
   * An operator's last resort: takes the lock away from its holders, or from the one with this fence. They are told that
   * they lost it, but their work may go on for a moment. False when there was nobody.
   * @throws LockStoreError, when it may have been done; LockUsageError for a fence that is none, which must not mean all holders
   */
  async forceRelease(key: string, options?: ForceReleaseOptions): Promise<boolean> {
    checkForceRelease(options, key);
    return this.store.forceRelease(checkKey(key), options?.fence);
  }

  /** Runs `fn` outside of every hold that surrounds this call: for work that outlives it. */
  detached<T>(fn: () => T): T {
    return this.context.outside(fn);
  }

  /** Shutdown begins: no new acquires except from inside a running hold, waiters are cancelled. */
  prepareShutdown(): void {
    this.shutdown.begin();
  }

  /** Waits up to `shutdownGraceMs` for running holds, aborts the signals of the rest without releasing them, and closes the store. */
  async close(): Promise<void> {
    await this.shutdown.finish();
    await this.store.close();
    this.eventSubject.complete();
  }

  private async hold(request: Request): Promise<Hold> {
    try {
      return this.begin(request, await this.entered(request));
    } catch (error) {
      const reason = this.refused(request, error);
      throw isExplained(request) ? await this.timeouts.reject(reason) : reason;
    }
  }

  private request(key: LockKey, given: (WithLockOptions & CallSite) | undefined, list?: OptionList, waitMs?: number): Request {
    const keys = typeof key === 'string' ? [checkKey(key)] : keysInOrder(key);
    const resolved = given === undefined ? this.defaults : resolveOptions(given, this.defaults, keys[0], list);
    const options = waitMs === undefined ? resolved : { ...resolved, waitMs };
    options.signal?.throwIfAborted();
    return { call: (this.calls += 1), keys, options, since: this.clock.now() };
  }

  /** Rejects with why a lock could not be had. */
  private entered({ keys, call, options, since }: Request): Promise<Entered | Entered[]> {
    const wish = new Wish(keys[0]!, call, options, since + options.waitMs, this.context.surroundings(), this.waitWatch);
    if (keys.length === 1) return this.enter(wish, since);
    return enterAll(keys, wish, { host: this.host, shutdown: this.shutdown, enter: (one) => this.enter(one) });
  }

  /** Inside the hold that surrounds the call, where there is one of this key; else from the queue. */
  private enter(wish: Wish, now?: number): Promise<Entered> {
    if (wish.around && this.context.find(wish.key)) return this.enterInside(wish);
    const refusal = this.shutdown.refusal(wish.key, wish.insideHold);
    return refusal ? Promise.reject(refusal) : this.queue.acquire(wish, now);
  }

  private async enterInside(wish: Wish): Promise<Entered> {
    const part = await this.context.enter(wish);
    return part ?? this.enter(wish.inside(this.context.surroundings()));
  }

  private begin({ call, options, since }: Request, entered: Entered | Entered[]): Hold {
    // Before it is made: a lease that was lost meanwhile ends it at once.
    this.shutdown.holdBegan();
    const hold = new Hold(this.host, Array.isArray(entered) ? entered : [entered], options, call);
    if (this.eventSubject.observed) this.announcer.granted(hold, hold.startedAt - since);
    return hold;
  }

  /** Tells why a request got nothing, and gives the reason back. */
  private refused(request: Request, reason: unknown): unknown {
    this.announcer.refused(request, reason, this.clock.now() - request.since);
    return reason;
  }
}

/** Whoever did not wait, or has something else to do when the lock is busy, is told so at once. */
function isExplained({ options }: Request): boolean {
  return options.waitMs > 0 && !options.expectsBusy;
}
