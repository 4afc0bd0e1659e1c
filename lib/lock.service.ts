/**
 * LockService, the API of a lock module. It checks arguments; the calls themselves run through core/hold/lock-core.ts. That of a module with
 * the option `route` leads each call to the module that keeps its keys (LockRouter).
 */
import { defer, mergeMap, type Observable, ReplaySubject, Subject } from 'rxjs';
import { innermost } from './core/hold/hold-context.js';
import { LockCore } from './core/hold/lock-core.js';
import { LEAD_OPTIONS, type LeadOptions, type Leadership, type LockHolder, type Term } from './core/hold/leading.js';
import { type Work, workOf } from './core/hold/work.js';
import { checkKey, keysInOrder, roleKey } from './core/key/check-key.js';
import { keptAlive, systemClock, type Clock } from './core/port/clock.js';
import { LockTimeoutError, LockUsageError, quoted } from './core/port/errors.js';
import { notHeldError } from './core/port/hold-errors.js';
import type { Lease } from './core/port/lease.js';
import type { LockEvent, Report } from './core/port/lock-events.js';
import type {
  AdoptOptions, CallSite, LockDefaults, LockMode, LockOptions, LockProfiles, WithAdoptedOptions, WithLockOptions,
} from './core/port/lock-options.js';
import {
  ACQUIRE_OPTIONS, ADOPT_OPTIONS, checkMode, checkOptions, FORCE_RELEASE_OPTIONS, type ForceReleaseOptions, invalidOption, LIST_OPTIONS,
  type OptionList, resolveDefaults, WITH_ADOPTED_OPTIONS, WITH_LOCK_OPTIONS, withProfile,
} from './core/port/options.js';
import type { ListOptions, LockState } from './core/port/lock-state.js';
import type { LockStore } from './core/port/lock-store.js';
import { readTicket } from './core/port/ticket.js';
import type { Call } from './core/queue/call.js';
import { endedBy } from './core/queue/abort-signals.js';

/** The key of a lock, or the keys of several locks that are taken all or none. */
export type LockKey = string | readonly string[];

export interface LockServiceOptions extends LockDefaults {
  /** Null for a module that has only a route. */
  readonly store: LockStore | null;
  readonly router?: LockRouter | undefined;
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
  /**
   * What happens to locks in this process, emitted synchronously when it happens. Completes when the module is closed. Of a module with a
   * route they are the events of all lock modules of the application, including those that are made after the subscription.
   */
  readonly events: Observable<LockEvent>;
  /** The events of the locks that this module keeps. @internal */
  readonly ownEvents = new Subject<LockEvent>();
  /** The core of the locks that this module keeps; undefined for a module that has only a route. @internal */
  readonly core: LockCore | undefined;
  /** @internal */
  readonly router: LockRouter | undefined;
  private readonly clock: Clock;
  private closing: Promise<void> | undefined;

  constructor(options: LockServiceOptions) {
    const { store, router, process, clock = systemClock, report, instance = 'default' } = options;
    this.clock = clock;
    this.router = router;
    this.events = router ? router.events : this.ownEvents.asObservable();
    if (store === null) return;
    this.core = new LockCore(store, clock, resolveDefaults(options), process, instance, this.ownEvents, report);
    store.onEvent?.((event) => this.ownEvents.next(event));
  }

  /** Connects to the store and checks it; LockModule calls it at boot. The process is kept alive until then. @throws LockStoreError @internal */
  async open(): Promise<void> {
    const { core } = this;
    if (core) await keptAlive(this.clock, () => core.store.open());
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
      const fn = workOf(second, third);
      const call = this.begin(key, typeof second === 'function' ? undefined : second);
      call.core.run(call, fn, resolve, reject);
    });
  }

  /**
   * Acquires the lock, waiting up to `waitMs`. The caller must release the lease, for example by `await using`.
   * @throws LockTimeoutError, LockStoreError, LockKeyError, LockUsageError, LockClosedError, or `signal.reason`; LockLostError when one of
   * several locks was lost while the call waited for the others
   */
  async acquire(key: LockKey, options?: LockOptions): Promise<Lease> {
    const call = this.begin(key, options, ACQUIRE_OPTIONS);
    return call.core.acquire(call);
  }

  /**
   * Acquires the lock as with `waitMs: 0`, whatever `waitMs` says; resolves with null when it is busy.
   * @throws as {@link acquire} does, but no LockTimeoutError
   */
  async tryAcquire(key: LockKey, options?: LockOptions): Promise<Lease | null> {
    try {
      const call = this.begin(key, options, ACQUIRE_OPTIONS, 0);
      return await call.core.acquire(call);
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
    const brought = readTicket(ticket);
    const core = this.coreOf(brought.keys);
    return core.acquire(core.beginAdoption(brought, options, ADOPT_OPTIONS));
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
      const fn = workOf(second, third, 'withAdopted(ticket');
      const options = typeof second === 'function' ? undefined : second;
      if (options?.withinMs !== undefined && options.onError !== 'handBack') throw invalidOption("withinMs says how long a ticket is good that was handed back, so it needs onError: 'handBack'");
      const brought = readTicket(ticket);
      const core = this.coreOf(brought.keys);
      const call = core.beginAdoption(brought, options, WITH_ADOPTED_OPTIONS);
      core.run(call, options?.onError === 'handBack' ? core.handingBack(fn, call, options.withinMs) : fn, resolve, reject);
    });
  }

  /** The lease of the hold around the running code, for `key`, or without a key the innermost one. Undefined when there is none. */
  currentLease(key?: string): Lease | undefined {
    return key === undefined ? innermost(this.cores())?.hold : this.coreOf([checkKey(key)]).context.find(key);
  }

  /** The lease of the hold of `key` around the running code. @throws LockUsageError when there is none, LockLostError when it was lost */
  assertLocked(key: string, mode: LockMode = 'write'): Lease {
    checkMode(mode, key);
    const { context } = this.coreOf([checkKey(key)]);
    const hold = context.find(key, mode);
    if (!hold) throw notHeldError(key, mode, context.find(key) !== undefined);
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
    const { holders, store } = this.coreOf([checkKey(key)]);
    return holders.named(await store.inspect(key));
  }

  /** Every lock of this prefix that is held or waited for, in no order. @throws LockUsageError; LockStoreError at any step */
  list(options?: ListOptions): AsyncIterable<LockState> {
    if (options !== undefined) checkOptions(options, LIST_OPTIONS);
    return this.listAll(options);
  }

  private async *listAll(options?: ListOptions): AsyncIterable<LockState> {
    for (const { holders, store } of this.cores()) for await (const state of store.list(options)) yield holders.named(state);
  }

  /**
   * Takes the lock away from its holders, or from the one with this fence: an operator's last resort. The signals of these holders
   * abort, but their work may go on for a moment. Resolves with false when there was no such holder.
   * @throws LockStoreError, after which the lock may have been released or not, so that only a call with a fence is safe to repeat;
   * LockUsageError for an invalid fence
   */
  async forceRelease(key: string, options?: ForceReleaseOptions): Promise<boolean> {
    if (options !== undefined) checkOptions(options, FORCE_RELEASE_OPTIONS, key);
    return this.coreOf([checkKey(key)]).store.forceRelease(key, options?.fence);
  }

  /** Runs `fn` outside of every hold that surrounds this call. It is meant for work that outlives the hold. */
  detached<T>(fn: () => T): T {
    return this.cores().reduce((inner, { context }) => () => context.outside(inner), fn)();
  }

  /**
   * Stands for election until it is stopped or the module is closed, and runs `fn` while this process leads: one leader at a time in
   * all processes. It never rejects: failures of `fn` are told as events and in the log. @throws LockKeyError, LockUsageError
   */
  lead(role: string, fn: Term, options?: LeadOptions): Leadership;
  lead(role: string, fn: Term, options: LeadOptions & CallSite = {}): Leadership {
    const key = roleKey(role);
    return this.coreOf([key]).election.stand(role, key, fn, this.router ? withProfile(options, this.router.profiles, LEAD_OPTIONS, key) : options);
  }

  /** Who leads now; null when nobody does. @throws LockKeyError, LockStoreError */
  async leader(role: string): Promise<LockHolder | null> {
    const key = roleKey(role);
    return (await this.coreOf([key]).store.inspect(key)).holders.find(({ remainingMs }) => remainingMs > 0) ?? null;
  }

  /** The roles that this process stands for, or leads: also those of methods with `@Leader`. */
  get leaderships(): readonly Leadership[] {
    return this.cores().flatMap(({ election }) => election.leaderships);
  }

  /**
   * Announces the shutdown: the signals of leaders abort, and `shutdownGraceMs` begins. Calls are served until `prepareShutdown()` or
   * `close()`, or until the grace is over. LockModule calls it. @internal
   */
  announceShutdown(): void {
    this.core?.election.close();
    this.core?.shutdown.announce();
  }

  /** Begins the shutdown: calls that wait and new calls reject with LockClosedError, except those made inside a hold. @internal */
  prepareShutdown(): void {
    this.announceShutdown();
    this.core?.shutdown.begin();
  }

  /** Begins the shutdown, and resolves when all holds have ended, or `shutdownGraceMs` are over. @internal */
  holdsEnded(): Promise<void> {
    this.prepareShutdown();
    return keptAlive(this.clock, async () => this.core?.shutdown.holdsEnded());
  }

  /**
   * Waits up to `shutdownGraceMs` for holds to end, aborts the signals of the others without releasing them, and closes the store. The
   * process is kept alive until then.
   */
  close(): Promise<void> {
    return (this.closing ??= keptAlive(this.clock, async () => {
      this.prepareShutdown();
      await this.core?.shutdown.finish();
      await this.core?.store.close();
      this.ownEvents.complete();
    }));
  }

  /** Notes a call with the module that keeps its keys. The profile that its options name is one of this module. */
  private begin(key: LockKey, given: (WithLockOptions & CallSite) | undefined, list?: OptionList, waitMs?: number): Call {
    const keys = typeof key === 'string' ? [checkKey(key)] : keysInOrder(key);
    const { core, router } = this;
    if (!router) return core!.begin(keys, given, list, waitMs);
    return router.coreOf(keys).begin(keys, given && withProfile(given, router.profiles, list ?? WITH_LOCK_OPTIONS, keys[0]), list, waitMs);
  }

  /** The core of the locks that these keys name. A module without a route keeps all of its locks. */
  private coreOf(keys: readonly string[]): LockCore {
    return this.router ? this.router.coreOf(keys) : this.core!;
  }

  private cores(): readonly LockCore[] {
    return this.router ? [...this.router.instances().values()] : [this.core!];
  }
}

/**
 * Leads the keys of a lock module with the option `route` to the modules that keep them. If the module has a store beside its route, that
 * store is one of those that the route can name.
 */
export class LockRouter {
  readonly events: Observable<LockEvent>;
  private readonly known = new Map<string, LockCore>();
  private readonly found = new ReplaySubject<Observable<LockEvent>>();
  private whole = false;

  /** `modules` gives the lock modules that the application has made, by their names. */
  constructor(
    private readonly route: (key: string) => string,
    readonly profiles: LockProfiles,
    private readonly modules: () => Iterable<readonly [string, LockService]>,
  ) {
    this.events = defer(() => {
      this.instances();
      return this.found.pipe(mergeMap((events) => events));
    });
  }

  /** LockModule calls it when the application has made all modules: from then on no lock module is added. */
  open(): void {
    this.instances();
    this.whole = true;
    this.found.complete();
  }

  /**
   * The core of the module that keeps these keys.
   * @throws LockUsageError when the route names a module that does not exist, or several modules for the keys of one call
   */
  coreOf(keys: readonly string[]): LockCore {
    const names = [...new Set(keys.map((key) => this.route(key)))];
    const [name] = names as [string];
    if (names.length > 1) {
      throw new LockUsageError(
        `Locks ${quoted(keys)}: their route leads to several lock modules (${quoted(names)}); the keys of one call must go to one.`,
      );
    }
    const core = this.instances().get(name);
    if (core) return core;
    const known = quoted([...this.known.keys()]) || 'none';
    const early = this.whole ? '' : ' The application is not initialized: use locks from onModuleInit on, when all lock modules are there.';
    throw new LockUsageError(
      `Lock '${keys[0]}': its route leads to a lock module '${name}' that does not exist. There are: ${known}.${early}`,
      { key: keys[0] },
    );
  }

  /**
   * The core of every lock module that has a store, by the module's name. Until {@link open} was called, modules that were made since the last look
   * are added.
   */
  instances(): ReadonlyMap<string, LockCore> {
    if (this.whole) return this.known;
    for (const [name, { core, ownEvents }] of this.modules()) {
      if (!core || this.known.has(name)) continue;
      this.known.set(name, core);
      this.found.next(ownEvents);
    }
    return this.known;
  }
}
