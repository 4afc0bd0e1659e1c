/** LockService, the API of a lock module. It checks arguments; the calls themselves run through core/hold/lock-calls.ts. */
import { Subject, type Observable } from 'rxjs';
import { LockCalls } from './core/hold/lock-calls.js';
import type { LeadOptions, Leadership, LockHolder, Term } from './core/hold/leading.js';
import { optionsAndWork, type Work } from './core/hold/work.js';
import { checkKey, keysInOrder, roleKey } from './core/key/check-key.js';
import { keptAlive, systemClock, type Clock } from './core/port/clock.js';
import { LockTimeoutError } from './core/port/errors.js';
import { notHeldError } from './core/port/hold-errors.js';
import type { Lease } from './core/port/lease.js';
import type { LockEvent, Report } from './core/port/lock-events.js';
import type { AdoptOptions, CallSite, LockDefaults, LockMode, LockOptions, WithAdoptedOptions, WithLockOptions } from './core/port/lock-options.js';
import { ACQUIRE_OPTIONS, ADOPT_OPTIONS, checkMode, checkOptions, FORCE_RELEASE_OPTIONS, type ForceReleaseOptions, invalidOption, LIST_OPTIONS, resolveDefaults, WITH_ADOPTED_OPTIONS } from './core/port/options.js';
import type { ListOptions, LockState } from './core/port/lock-state.js';
import type { LockStore } from './core/port/lock-store.js';
import { endedBy } from './core/queue/abort-signals.js';

/** The key of a lock, or the keys of several locks that are taken all or none. */
export type LockKey = string | readonly string[];

export interface LockServiceOptions extends LockDefaults {
  readonly store: LockStore;
  /** The name of this process in holder ids, the same with which the store was made. */
  readonly process: string;
  readonly clock?: Clock;
  /** The name of the lock module, by which a ticket knows where it belongs. @default 'default' */
  readonly instance?: string | undefined;
  /** Receives the findings that an operator should read. Without it they are dropped. */
  readonly report?: Report | undefined;
}

/** Takes locks and looks at them. Inject it, or for a lock module with a name use `@InjectLocks(name)`. */
export class LockService {
  /** What happens to locks in this process, emitted synchronously when it happens. Completes when the module is closed. */
  readonly events: Observable<LockEvent>;
  private readonly eventSubject = new Subject<LockEvent>();
  private readonly store: LockStore;
  private readonly clock: Clock;
  private readonly calls: LockCalls;
  private closing: Promise<void> | undefined;

  constructor(options: LockServiceOptions) {
    const { store, process, clock = systemClock, report, instance = 'default' } = options;
    this.store = store;
    this.clock = clock;
    this.calls = new LockCalls({ events: this.eventSubject, store, process, instance, clock, defaults: resolveDefaults(options), report });
    this.events = this.eventSubject.asObservable();
    store.onEvent?.((event) => this.eventSubject.next(event));
  }

  /** Connects to the store and checks it; LockModule calls it at boot. The process is kept alive until then. @throws LockStoreError @internal */
  open(): Promise<void> {
    return keptAlive(this.clock, () => this.store.open());
  }

  /**
   * Acquires the lock, runs `fn` with the lease, and releases it. A call inside `fn` that wants the same lock re-enters this hold.
   * @throws LockTimeoutError, LockStoreError, LockKeyError, LockUsageError, LockClosedError, or `signal.reason`, before `fn` ran
   * @throws LockLostError after `fn` ended, when its lease was lost before (unless `onLost: 'ignore'`)
   */
  withLock<T>(key: LockKey, fn: Work<T>): Promise<T>;
  withLock<T>(key: LockKey, options: WithLockOptions, fn: Work<T>): Promise<T>;
  withLock<T>(key: LockKey, second: Work<T> | (WithLockOptions & CallSite), third?: Work<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const [options, fn] = optionsAndWork(second, third);
      this.calls.run(this.calls.begin(keysOf(key), options), fn, resolve, reject);
    });
  }

  /**
   * Acquires the lock, waiting up to `waitMs`. The caller must release the lease, for example by `await using`.
   * @throws LockTimeoutError, LockStoreError, LockKeyError, LockUsageError, LockClosedError, or `signal.reason`; LockLostError when one of
   * several locks was lost while the call waited for the others
   */
  async acquire(key: LockKey, options?: LockOptions): Promise<Lease> {
    return this.calls.acquire(this.calls.begin(keysOf(key), options, ACQUIRE_OPTIONS));
  }

  /**
   * Acquires the lock as with `waitMs: 0`, whatever `waitMs` says; resolves with null when it is busy.
   * @throws as {@link acquire} does, but no LockTimeoutError
   */
  async tryAcquire(key: LockKey, options?: LockOptions): Promise<Lease | null> {
    try {
      return await this.calls.acquire(this.calls.begin(keysOf(key), options, ACQUIRE_OPTIONS, 0));
    } catch (error) {
      if (!endedBy(options?.signal, error) && error instanceof LockTimeoutError) return null;
      throw error;
    }
  }

  /**
   * Takes over a hold that a process handed off (`lease.handOff()`), with a higher fence; nobody else had the lock in between. The caller
   * must release the lease. A ticket is good for one adoption, and until its time is over.
   * @throws LockLostError when the ticket was adopted already, or came too late; LockUsageError for a damaged ticket and one of another
   * store, prefix or lock module; LockStoreError, LockClosedError
   */
  async adopt(ticket: string, options?: AdoptOptions): Promise<Lease> {
    return this.calls.acquire(this.calls.beginAdoption(ticket, options, ADOPT_OPTIONS));
  }

  /**
   * Adopts the hold of this ticket, runs `fn` with the lease, and releases it; with `onError: 'handBack'` it goes back to the ticket when `fn` fails.
   *
   * @throws as {@link adopt} before `fn` ran; LockLostError as withLock does
   */
  withAdopted<T>(ticket: string, fn: Work<T>): Promise<T>;
  withAdopted<T>(ticket: string, options: WithAdoptedOptions, fn: Work<T>): Promise<T>;
  withAdopted<T>(ticket: string, second: Work<T> | WithAdoptedOptions, third?: Work<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const [options, fn] = optionsAndWork(second, third, 'withAdopted(ticket');
      if (options?.withinMs !== undefined && options.onError !== 'handBack') throw invalidOption("withinMs says how long a ticket is good that was handed back, so it needs onError: 'handBack'");
      const call = this.calls.beginAdoption(ticket, options, WITH_ADOPTED_OPTIONS);
      this.calls.run(call, options?.onError === 'handBack' ? this.calls.handingBack(fn, call, options.withinMs) : fn, resolve, reject);
    });
  }

  /** The lease of the hold around the running code, for `key`, or without a key the innermost one. Undefined when there is none. */
  currentLease(key?: string): Lease | undefined {
    return this.calls.context.find(key === undefined ? undefined : checkKey(key));
  }

  /** The lease of the hold of `key` around the running code. @throws LockUsageError when there is none, LockLostError when it was lost */
  assertLocked(key: string, mode: LockMode = 'write'): Lease {
    checkMode(mode, key);
    const hold = this.calls.context.find(checkKey(key), mode);
    if (!hold) throw notHeldError(key, mode, this.calls.context.find(key) !== undefined);
    hold.assertHeld();
    return hold;
  }

  /** Asks the store whether any process holds the lock now, in this mode if one is given. @throws LockStoreError */
  async isLocked(key: string, mode?: LockMode): Promise<boolean> {
    checkMode(mode, key);
    const state = await this.inspect(key);
    return state.mode !== null && (mode === undefined || state.mode === mode);
  }

  /**
   * Asks the store who holds the lock and who waits for it. A holder of this process has the label of the call that holds now.
   *
   * @throws LockStoreError
   */
  async inspect(key: string): Promise<LockState> {
    return this.calls.here.named(await this.store.inspect(checkKey(key)));
  }

  /** Every lock of this prefix that is held or waited for, in no order. @throws LockUsageError; LockStoreError at any step */
  list(options?: ListOptions): AsyncIterable<LockState> {
    if (options !== undefined) checkOptions(options, LIST_OPTIONS);
    return this.calls.here.allNamed(this.store.list(options));
  }

  /**
   * Takes the lock away from its holders, or from the one with this fence: an operator's last resort. The signals of these holders
   * abort, but their work may go on for a moment. Resolves with false when there was no such holder.
   * @throws LockStoreError, after which the lock may have been released or not, so that only a call with a fence is safe to repeat;
   * LockUsageError for an invalid fence
   */
  async forceRelease(key: string, options?: ForceReleaseOptions): Promise<boolean> {
    if (options !== undefined) checkOptions(options, FORCE_RELEASE_OPTIONS, key);
    return this.store.forceRelease(checkKey(key), options?.fence);
  }

  /** Runs `fn` outside of every hold that surrounds this call. It is meant for work that outlives the hold. */
  detached<T>(fn: () => T): T {
    return this.calls.context.outside(fn);
  }

  /**
   * Stands for election until it is stopped or the module is closed, and runs `fn` while this process leads: one leader at a time in
   * all processes. It never rejects: failures of `fn` are told as events and in the log. @throws LockKeyError, LockUsageError
   */
  lead(role: string, fn: Term, options?: LeadOptions): Leadership;
  lead(role: string, fn: Term, options: LeadOptions & CallSite = {}): Leadership {
    return this.calls.election.stand(role, roleKey(role), fn, options);
  }

  /** Who leads now; null when nobody does. @throws LockKeyError, LockStoreError */
  async leader(role: string): Promise<LockHolder | null> {
    return (await this.store.inspect(roleKey(role))).holders[0] ?? null;
  }

  /** The roles that this process stands for, or leads: also those of methods with `@Leader`. */
  get leaderships(): readonly Leadership[] {
    return this.calls.election.leaderships;
  }

  /**
   * Announces the shutdown: the signals of leaders abort, and `shutdownGraceMs` begins. Calls are served until `prepareShutdown()` or
   * `close()`, or until the grace is over. LockModule calls it. @internal
   */
  announceShutdown(): void {
    this.calls.election.close();
    this.calls.shutdown.announce();
  }

  /** Begins the shutdown: calls that wait and new calls reject with LockClosedError, except those made inside a hold. @internal */
  prepareShutdown(): void {
    this.announceShutdown();
    this.calls.shutdown.begin();
  }

  /** Begins the shutdown, and resolves when all holds have ended, or `shutdownGraceMs` are over. @internal */
  holdsEnded(): Promise<void> {
    this.prepareShutdown();
    return keptAlive(this.clock, async () => this.calls.shutdown.holdsEnded());
  }

  /**
   * Waits up to `shutdownGraceMs` for holds to end, aborts the signals of the others without releasing them, and closes the store. The
   * process is kept alive until then.
   */
  close(): Promise<void> {
    return (this.closing ??= keptAlive(this.clock, async () => {
      this.prepareShutdown();
      await this.calls.shutdown.finish();
      await this.store.close();
      this.eventSubject.complete();
    }));
  }
}

function keysOf(key: LockKey): readonly string[] {
  return typeof key === 'string' ? [checkKey(key)] : keysInOrder(key);
}
