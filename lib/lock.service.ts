/**
 * LockService: the one path through core that decorators, `withLock` and `acquire` share.
 */
import { Subject, type Observable } from 'rxjs';
import { keysInOrder } from './core/key/call-key.js';
import { keptAlive, systemClock, type Clock } from './core/port/clock.js';
import { isLockError, LockTimeoutError, LockUsageError } from './core/port/errors.js';
import { Entrance } from './core/hold/entrance.js';
import { Hold, type HoldHost } from './core/hold/hold.js';
import { HoldContext } from './core/hold/hold-context.js';
import { escapeKey } from './core/key/key-template.js';
import type { Lease } from './core/port/lease.js';
import { LocalQueue } from './core/queue/local-queue.js';
import type { LockEvent } from './core/port/lock-events.js';
import type { LockMode } from './core/port/lock-mode.js';
import { resolveDefaults, resolveOptions, type CallSite, type LockDefaults, type LockOptions } from './core/port/lock-options.js';
import type { ResolvedDefaults, ResolvedOptions, WithLockOptions } from './core/port/lock-options.js';
import type { ListOptions, LockState, LockStore } from './core/port/lock-store.js';
import { runInHold, type Work } from './core/hold/run-in-hold.js';
import { ShutdownGate } from './core/hold/shutdown-gate.js';
import { TrialLock } from './core/lease/trial-lock.js';
import type { Turn } from './core/queue/turn.js';
import { Watchdog } from './core/lease/watchdog.js';

/** One key, or several locks that are taken together or not at all. */
export type LockKey = string | readonly string[];

export interface LockServiceOptions extends LockDefaults {
  readonly store: LockStore;
  /** Names this process in holder ids; the same that the store was made with. */
  readonly process: string;
  readonly clock?: Clock;
}

/** A call, checked and complete. */
interface Request {
  readonly keys: readonly string[];
  readonly options: ResolvedOptions;
  readonly since: number;
}

export class LockService {
  /** What happens to locks in this process, told at the moment it happens; completes when the module is closed. */
  readonly events: Observable<LockEvent>;
  private readonly eventSubject = new Subject<LockEvent>();
  private readonly store: LockStore;
  private readonly trialLock: TrialLock;
  private readonly clock: Clock;
  private readonly defaults: ResolvedDefaults;
  private readonly context = new HoldContext();
  private readonly watchdog: Watchdog;
  private readonly queue: LocalQueue;
  private readonly entrance: Entrance;
  private readonly shutdown: ShutdownGate;
  private readonly host: HoldHost;

  constructor(options: LockServiceOptions) {
    this.store = options.store;
    this.defaults = resolveDefaults(options);
    this.clock = detachedTimers(options.clock ?? systemClock, this.context);
    this.trialLock = new TrialLock(this.store, options.process, this.clock);
    this.events = this.eventSubject.asObservable();
    this.watchdog = new Watchdog(this.store, this.clock, (lease, cause) => {
      const { key, mode } = lease;
      this.emit({ type: 'renewFailed', key, mode, label: undefined, template: undefined, cause });
    });
    this.queue = new LocalQueue(this.store, this.clock, this.watchdog, options.process, this.defaults);
    this.shutdown = new ShutdownGate(this.queue, this.watchdog, this.clock, this.defaults);
    this.entrance = new Entrance(this.clock, this.context, this.queue, this.shutdown, (key, options) => {
      this.emit({ type: 'waiting', key, ...site(options) });
    });
    this.host = {
      store: this.store,
      clock: this.clock,
      watchdog: this.watchdog,
      context: this.context,
      defaults: this.defaults,
      lost: (hold, cause) => {
        this.shutdown.holdEnded();
        this.emitHold(hold, (common) => ({ ...common, type: 'lost', cause }));
      },
      ended: (hold, outcome) => {
        if (!hold.isLost) this.shutdown.holdEnded();
        this.emitHold(hold, (common) => ({ ...common, type: 'released', outcome }));
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
    const [options, fn] = typeof second === 'function' ? [undefined, second] : [second, third];
    return new Promise<T>((resolve, reject) => {
      if (typeof fn !== 'function') throw new LockUsageError('withLock(key, options?, fn): fn must be a function.');
      const request = this.request(key, options);
      this.entrance.enter(request.keys, request.options).then(
        (turns) => runInHold(this.context, this.begin(request, turns), fn, resolve, reject),
        (error: unknown) => reject(this.refused(request, error)),
      );
    });
  }

  /**
   * Acquires and leaves the release to the caller; `await using` does it. Waits up to `waitMs`.
   * @throws LockTimeoutError, LockStoreError, LockKeyError, LockUsageError, LockClosedError; LockLostError when one of
   * several keys was lost while the others were waited for
   */
  async acquire(key: LockKey, options?: LockOptions): Promise<Lease> {
    return this.enter(key, options);
  }

  /** Like {@link acquire} without waiting; null when the lock is busy. */
  async tryAcquire(key: LockKey, options?: LockOptions): Promise<Lease | null> {
    try {
      return await this.enter(key, { ...options, waitMs: 0 });
    } catch (error) {
      if (error instanceof LockTimeoutError) return null;
      throw error;
    }
  }

  /** The lease that the running code is inside of, the innermost one or that of `key`. */
  currentLease(key?: string): Lease | undefined {
    return this.context.find(key === undefined ? undefined : escapeKey(key));
  }

  /** The lease of `key` that the running code is inside of. @throws LockUsageError when there is none, LockLostError when it was lost */
  assertLocked(key: string, mode: LockMode = 'write'): Lease {
    const hold = this.context.find(escapeKey(key), mode);
    if (!hold) {
      const found = this.context.find(escapeKey(key)) ? 'it holds it for reading only' : 'it does not hold it';
      const wanted = mode === 'write' ? 'writing' : 'reading';
      throw new LockUsageError(`Lock '${key}' must be held for ${wanted} by the code that runs here, but ${found}.`, { key });
    }
    hold.assertHeld();
    return hold;
  }

  /** Whether anybody holds the lock (in this mode) now, as the store sees it. @throws LockStoreError */
  async isLocked(key: string, mode?: LockMode): Promise<boolean> {
    const state = await this.inspect(key);
    return state.mode !== null && (mode === undefined || state.mode === mode);
  }

  /** Who holds the lock and who waits for it. @throws LockStoreError */
  async inspect(key: string): Promise<LockState> {
    return this.store.inspect(escapeKey(key));
  }

  /** Whether locks can be had: takes one of its own and gives it back, without an event. @throws LockStoreError when they cannot */
  checkStore(): Promise<void> {
    return this.trialLock.take();
  }

  /** Every lock of this prefix that is held or waited for, without order. @throws LockStoreError, also in the midst of the walk */
  list(options?: ListOptions): AsyncIterable<LockState> {
    return this.store.list(options);
  }

  /**
   * An operator's last resort: takes the lock away from its holders, or from the one with this fence. They are told that
   * they lost it, but their work may go on for a moment. False when there was nobody.
   * @throws LockStoreError, when it may have been done; LockUsageError for a fence that is none, which must not mean all holders
   */
  async forceRelease(key: string, options: { fence?: number } = {}): Promise<boolean> {
    const { fence } = options;
    if (fence !== undefined && !(Number.isSafeInteger(fence) && fence > 0)) {
      const message = `Lock '${key}': expected fence to be the number of a hold, got ${String(fence)}.`;
      throw new LockUsageError(`${message} Leave it out to take the lock from all holders.`, { key });
    }
    return this.store.forceRelease(escapeKey(key), fence);
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

  private async enter(key: LockKey, given: LockOptions | undefined): Promise<Hold> {
    const request = this.request(key, given);
    try {
      return this.begin(request, await this.entrance.enter(request.keys, request.options));
    } catch (error) {
      throw this.refused(request, error);
    }
  }

  private request(key: LockKey, given: (WithLockOptions & CallSite) | undefined): Request {
    const keys = typeof key === 'string' ? [escapeKey(key)] : keysInOrder(key);
    const options = resolveOptions(given, this.defaults, keys[0]);
    options.signal?.throwIfAborted();
    return { keys, options, since: this.clock.now() };
  }

  private begin({ options, since }: Request, turns: readonly Turn[]): Hold {
    // Before it is made: a lease that was lost meanwhile ends it at once.
    this.shutdown.holdBegan();
    const hold = new Hold(this.host, turns, options);
    this.emitHold(hold, (common) => ({ ...common, type: 'granted', waitedMs: hold.startedAt - since }));
    return hold;
  }

  private emit(event: LockEvent): void {
    if (this.eventSubject.observed) this.eventSubject.next(event);
  }

  private emitHold(hold: Hold, event: (common: ReturnType<typeof holdFacts>) => LockEvent): void {
    if (this.eventSubject.observed) this.eventSubject.next(event(holdFacts(hold)));
  }

  /** Reports why a request got nothing, and gives the reason back. */
  private refused({ keys, options, since }: Request, cause: unknown): unknown {
    const common = { key: keys[0]!, ...site(options), waitedMs: this.clock.now() - since };
    if (!isLockError(cause)) this.emit({ ...common, type: 'cancelled' });
    else if (cause.code === 'LOCK_TIMEOUT') this.emit({ ...common, type: 'busy' });
    else this.emit({ ...common, type: 'failed', cause });
    return cause;
  }
}

function site({ mode, label, template }: ResolvedOptions): Pick<ResolvedOptions, 'mode' | 'label' | 'template'> {
  return { mode, label, template };
}

function holdFacts(hold: Hold): ReturnType<typeof site> & { key: string; fence: number; nested: boolean; heldMs: number } {
  const { key, heldMs, nested } = hold;
  return { ...site(hold.options), key, heldMs, nested, fence: hold.fences.get(key)! };
}

/** The library's timers belong to no hold: they must not keep the context of whoever happened to start them. */
function detachedTimers(clock: Clock, context: HoldContext): Clock {
  return {
    now: () => clock.now(),
    wallNow: () => clock.wallNow(),
    uptimeMs: () => clock.uptimeMs(),
    setTimer: (callback, delayMs) => context.outside(() => clock.setTimer(callback, delayMs)),
    clearTimer: (timer) => clock.clearTimer(timer),
    nextTurn: (callback) => context.outside(() => clock.nextTurn(callback)),
    keepAlive: () => clock.keepAlive(),
  };
}
