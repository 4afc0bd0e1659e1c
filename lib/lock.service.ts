/**
 * LockService, the API of a lock module. Decorators, `withLock` and `acquire` take the same path through the core.
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

/** The key of a lock, or the keys of several locks that are taken all or none. */
export type LockKey = string | readonly string[];

export interface LockServiceOptions extends LockDefaults {
  readonly store: LockStore;
  /** The name of this process in holder ids, the same with which the store was made. */
  readonly process: string;
  readonly clock?: Clock;
  /** Receives the findings that an operator should read. Without it they are dropped. */
  readonly report?: Report | undefined;
}

/** One call for locks, with checked keys and complete options. */
interface Request {
  /** Its number in this process. */
  readonly call: number;
  readonly keys: readonly string[];
  readonly options: ResolvedOptions;
  /** When the call was made, in clock.now() time. */
  readonly since: number;
}

/** Takes locks and looks at them. Inject it, or for a lock module with a name use `@InjectLocks(name)`. */
export class LockService {
  /** What happens to locks in this process, emitted synchronously when it happens. Completes when the module is closed. */
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
  /** The number of the last call. */
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
        if (!hold.isLost) this.shutdown.holdEnded();
        announcer.released(hold, outcome);
      },
    };
  }

  /** Connects to the store and checks it. The process is kept alive until then. @throws LockStoreError */
  open(): Promise<void> {
    return keptAlive(this.clock, () => this.store.open());
  }

  /**
   * Acquires the lock, runs `fn` with the lease, and releases it. A call inside `fn` that wants the same lock re-enters this hold.
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
   * Acquires the lock, waiting up to `waitMs`. The caller must release the lease, for example by `await using`.
   * @throws LockTimeoutError, LockStoreError, LockKeyError, LockUsageError, LockClosedError; LockLostError when one of
   * several locks was lost while the call waited for the others
   */
  async acquire(key: LockKey, options?: LockOptions): Promise<Lease> {
    return this.hold(this.request(key, options, ACQUIRE_OPTIONS));
  }

  /** Acquires the lock without waiting; resolves with null when it is busy. @throws as {@link acquire} does, but no LockTimeoutError */
  async tryAcquire(key: LockKey, options?: LockOptions): Promise<Lease | null> {
    try {
      return await this.hold(this.request(key, options, ACQUIRE_OPTIONS, 0));
    } catch (error) {
      if (error instanceof LockTimeoutError) return null;
      throw error;
    }
  }

  /** The lease inside which the running code is: that of `key`, or without a key the innermost one. */
  currentLease(key?: string): Lease | undefined {
    return this.context.find(key === undefined ? undefined : checkKey(key));
  }

  /** The lease of `key` inside which the running code is. @throws LockUsageError when there is none, LockLostError when it was lost */
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

  /** Asks the store whether any process holds the lock now, in this mode if one is given. @throws LockStoreError */
  async isLocked(key: string, mode?: LockMode): Promise<boolean> {
    checkMode(mode, key);
    const state = await this.inspect(key);
    return state.mode !== null && (mode === undefined || state.mode === mode);
  }

  /** Asks the store who holds the lock and who waits for it. @throws LockStoreError */
  async inspect(key: string): Promise<LockState> {
    return this.store.inspect(checkKey(key));
  }

  /** Every lock of this prefix that is held or waited for, in no order. @throws LockUsageError; LockStoreError at any step */
  list(options?: ListOptions): AsyncIterable<LockState> {
    checkList(options);
    return this.store.list(options);
  }

  /**
   * Takes the lock away from its holders, or from the one with this fence: an operator's last resort. The signals of these holders
   * abort, but their work may go on for a moment. Resolves with false when there was no such holder.
   * @throws LockStoreError, after which the lock may have been released or not; LockUsageError for an invalid fence
   */
  async forceRelease(key: string, options?: ForceReleaseOptions): Promise<boolean> {
    checkForceRelease(options, key);
    return this.store.forceRelease(checkKey(key), options?.fence);
  }

  /** Runs `fn` outside of every hold that surrounds this call. It is meant for work that outlives the hold. */
  detached<T>(fn: () => T): T {
    return this.context.outside(fn);
  }

  /** Begins the shutdown: calls that wait and new calls reject with LockClosedError, except those made inside a hold. */
  prepareShutdown(): void {
    this.shutdown.begin();
  }

  /** Waits up to `shutdownGraceMs` for holds to end, aborts the signals of the others without releasing them, and closes the store. */
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
    const resolved = resolveOptions(given, this.defaults, keys[0], list);
    const options = waitMs === undefined ? resolved : { ...resolved, waitMs };
    options.signal?.throwIfAborted();
    return { call: (this.calls += 1), keys, options, since: this.clock.now() };
  }

  /** Resolves with what the call got: leases, or parts of holds around it. Rejects with why a lock could not be had. */
  private entered({ keys, call, options, since }: Request): Promise<Entered | Entered[]> {
    const wish = new Wish(keys[0]!, call, options, since + options.waitMs, this.context.surroundings(), this.waitWatch);
    if (keys.length === 1) return this.enter(wish, since);
    return enterAll(keys, wish, { host: this.host, shutdown: this.shutdown, enter: (one) => this.enter(one) });
  }

  /** Gets one lock: by re-entering a hold of it that surrounds the call, else from the queue. */
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
    // The hold is counted before it is made, because a lease that was lost meanwhile ends it in its constructor.
    this.shutdown.holdBegan();
    const hold = new Hold(this.host, Array.isArray(entered) ? entered : [entered], options, call);
    this.announcer.granted(hold, hold.startedAt - since);
    return hold;
  }

  /** Emits the event of a call that got no lock, and returns the reason. */
  private refused(request: Request, reason: unknown): unknown {
    this.announcer.refused(request, reason, this.clock.now() - request.since);
    return reason;
  }
}

/** Whether a LockTimeoutError should name the holders. A caller that does not wait, or has an answer to a busy lock, gets it at once. */
function isExplained({ options }: Request): boolean {
  return options.waitMs > 0 && !options.expectsBusy;
}
