/**
 * LockRouter: what a lock module with the option `route` provides as its LockService. It passes each call on to the
 * LockService of the module that keeps the key. If the module has a store beside its route, that store is one of those that
 * the route can name.
 */
import type { ModulesContainer } from '@nestjs/core';
import { defer, mergeMap, ReplaySubject, type Observable } from 'rxjs';
import { keysInOrder, roleKey } from '../core/key/check-key.js';
import { LockUsageError } from '../core/port/errors.js';
import type { Lease } from '../core/port/lease.js';
import type { LockEvent } from '../core/port/lock-events.js';
import type { AdoptOptions, LockMode, LockOptions, LockProfiles, WithAdoptedOptions, WithLockOptions } from '../core/port/lock-options.js';
import type { ListOptions, LockState } from '../core/port/lock-state.js';
import { readTicket } from '../core/port/ticket.js';
import { ACQUIRE_OPTIONS, checkOptions, type ForceReleaseOptions, LIST_OPTIONS, type OptionList, WITH_LOCK_OPTIONS, withProfile } from '../core/port/options.js';
import { LEAD_OPTIONS, type LeadOptions, type Leadership, type LockHolder, type Term } from '../core/hold/leading.js';
import { optionsAndWork, type Work } from '../core/hold/work.js';
import { LockService, type LockKey } from '../lock.service.js';
import { INSTANCE_NAME, locksToken } from './lock-names.js';

/** The public members of LockService, without its private ones. */
export type Locks = { [Name in keyof LockService]: LockService[Name] };

export class LockRouter implements Locks {
  /** The events of all lock modules of the application, including those that are made after the subscription. */
  readonly events: Observable<LockEvent>;
  private readonly known = new Map<string, LockService>();
  private readonly found = new ReplaySubject<LockService>();
  private whole = false;

  constructor(
    private readonly options: { readonly route: (key: string) => string; readonly profiles: LockProfiles },
    name: string,
    private readonly own: LockService | null,
    private readonly modules: ModulesContainer,
  ) {
    this.events = defer(() => {
      this.instances();
      return this.found.pipe(mergeMap(({ events }) => events));
    });
    if (own) this.add(name, own);
  }

  /** Called when Nest has made all modules: from then on no lock module is added. Every module opens and closes its own store. */
  async open(): Promise<void> {
    this.instances();
    this.whole = true;
    this.found.complete();
  }

  withLock<T>(key: LockKey, fn: Work<T>): Promise<T>;
  withLock<T>(key: LockKey, options: WithLockOptions, fn: Work<T>): Promise<T>;
  async withLock<T>(key: LockKey, second: Work<T> | WithLockOptions, third?: Work<T>): Promise<T> {
    const [options, fn] = optionsAndWork(second, third);
    const locks = this.of(key);
    return options === undefined ? locks.withLock(key, fn) : locks.withLock(key, this.completed(options, WITH_LOCK_OPTIONS, key), fn);
  }

  async acquire(key: LockKey, options?: LockOptions): Promise<Lease> {
    return this.of(key).acquire(key, this.completed(options, ACQUIRE_OPTIONS, key));
  }

  async tryAcquire(key: LockKey, options?: LockOptions): Promise<Lease | null> {
    return this.of(key).tryAcquire(key, this.completed(options, ACQUIRE_OPTIONS, key));
  }

  async adopt(ticket: string, options?: AdoptOptions): Promise<Lease> {
    return this.of(readTicket(ticket).keys).adopt(ticket, options);
  }

  withAdopted<T>(ticket: string, fn: Work<T>): Promise<T>;
  withAdopted<T>(ticket: string, options: WithAdoptedOptions, fn: Work<T>): Promise<T>;
  async withAdopted<T>(ticket: string, second: Work<T> | WithAdoptedOptions, third?: Work<T>): Promise<T> {
    const [options, fn] = optionsAndWork(second, third, 'withAdopted(ticket');
    return this.of(readTicket(ticket).keys).withAdopted(ticket, options ?? {}, fn);
  }

  /** The lease of `key`; without a key, of all modules' leases the one whose hold began last. */
  currentLease(key?: string): Lease | undefined {
    if (key !== undefined) return this.of(key).currentLease(key);
    const leases = this.all().flatMap((locks) => locks.currentLease() ?? []);
    return leases.sort((a, b) => a.heldMs - b.heldMs)[0];
  }

  assertLocked(key: string, mode?: LockMode): Lease {
    return this.of(key).assertLocked(key, mode);
  }

  async isLocked(key: string, mode?: LockMode): Promise<boolean> {
    return this.of(key).isLocked(key, mode);
  }

  async inspect(key: string): Promise<LockState> {
    return this.of(key).inspect(key);
  }

  list(options?: ListOptions): AsyncIterable<LockState> {
    if (options !== undefined) checkOptions(options, LIST_OPTIONS);
    return this.listAll(options);
  }

  async forceRelease(key: string, options?: ForceReleaseOptions): Promise<boolean> {
    return this.of(key).forceRelease(key, options);
  }

  lead(role: string, fn: Term, options?: LeadOptions): Leadership {
    return this.of(roleKey(role)).lead(role, fn, this.completed(options, LEAD_OPTIONS, roleKey(role)));
  }

  async leader(role: string): Promise<LockHolder | null> {
    return this.of(roleKey(role)).leader(role);
  }

  get leaderships(): readonly Leadership[] {
    return this.all().flatMap(({ leaderships }) => leaderships);
  }

  detached<T>(fn: () => T): T {
    return this.all().reduce((inner, locks) => () => locks.detached(inner), fn)();
  }

  announceShutdown(): void {
    this.own?.announceShutdown();
  }

  prepareShutdown(): void {
    this.own?.prepareShutdown();
  }

  async holdsEnded(): Promise<void> {
    await this.own?.holdsEnded();
  }

  async close(): Promise<void> {
    await this.own?.close();
  }

  /**
   * The LockService of the module that keeps `key`.
   * @throws LockKeyError when `key` is not valid
   * @throws LockUsageError when the route names a module that does not exist, or several modules for the keys of one call
   */
  private of(key: LockKey): LockService {
    const keys = typeof key === 'string' ? [key] : key;
    keysInOrder(keys); // throws when a key is not valid, so that the route function gets valid keys only
    const names = [...new Set(keys.map((one) => this.options.route(one)))];
    const [name] = names as [string];
    if (names.length > 1) {
      throw new LockUsageError(
        `Locks ${quoted(keys)}: their route leads to several lock modules (${quoted(names)}); the keys of one call must go to one.`,
      );
    }
    const locks = this.known.get(name) ?? this.instances().get(name);
    if (locks) return locks;
    const known = quoted([...this.known.keys()]) || 'none';
    const early = this.whole ? '' : ' The application is not initialized: use locks from onModuleInit on, when all lock modules are there.';
    throw new LockUsageError(
      `Lock '${keys[0]}': its route leads to a lock module '${name}' that does not exist. There are: ${known}.${early}`,
      { key: keys[0] },
    );
  }

  /** The options with those of the profile that they name, which this module has and not the one that keeps the key. */
  private completed<O extends LockOptions | LeadOptions | undefined>(given: O, list: OptionList, key: LockKey): O {
    return given && withProfile(given, this.options.profiles, list, typeof key === 'string' ? key : key[0]);
  }

  private async *listAll(options?: ListOptions): AsyncIterable<LockState> {
    for (const locks of this.all()) yield* locks.list(options);
  }

  private all(): readonly LockService[] {
    return [...this.instances().values()];
  }

  /**
   * The LockService of every lock module that has a store, by the module's name. Until {@link open} was called, modules that
   * Nest has made since the last look are added.
   */
  instances(): ReadonlyMap<string, LockService> {
    if (this.whole) return this.known;
    for (const [name, locks] of lockModules(this.modules)) if (locks instanceof LockService && !this.known.has(name)) this.add(name, locks);
    return this.known;
  }

  private add(name: string, locks: LockService): void {
    this.known.set(name, locks);
    this.found.next(locks);
  }
}

function quoted(names: readonly string[]): string {
  return names.map((name) => `'${name}'`).join(', ');
}

/** Each lock module of the application with its name, unless a test has overridden its locks by an object of another class. */
export function* lockModules(modules: ModulesContainer): Generator<readonly [string, LockService | LockRouter]> {
  for (const { providers } of modules.values()) {
    const name: unknown = providers.get(INSTANCE_NAME)?.instance;
    if (typeof name !== 'string') continue;
    const locks: unknown = providers.get(locksToken(name))?.instance;
    if (locks instanceof LockService || locks instanceof LockRouter) yield [name, locks];
  }
}
