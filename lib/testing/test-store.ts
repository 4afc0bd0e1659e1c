/**
 * What all applications of a test share: the embedded store on a clock that stands still, and the faults that the test
 * has staged.
 *
 * Time passes by itself in one case only: somebody waits, and nothing but time can help. That is so when no application
 * of the test holds what it waits for (the test made it busy, or minHoldMs keeps it taken), or when the store could not be
 * asked. Waits that the test's own code will end do not touch the clock.
 */
import { LockUsageError, type LockStoreError } from '../core/port/errors.js';
import { checkKey } from '../core/key/check-key.js';
import { roleOf } from '../core/key/role-key.js';
import type { LockMode } from '../core/port/lock-mode.js';
import { optionsProblem, type NamesOf, type OptionList } from '../core/port/option-names.js';
import { checkMode } from '../core/port/request-options.js';
import type { AcquireOutcome, AcquireRequest, HolderState, Wake } from '../core/port/lock-store.js';
import { MemoryStore } from '../stores/memory/memory-store.js';
import { checkMs, TestClock } from './test-clock.js';
import { endingWith, wholeGrant } from './whole-milliseconds.js';

/** How {@link TestLocks.busy} keeps a key. */
export interface BusyOptions {
  /** @default 'write' */
  mode?: LockMode | undefined;
  /**
   * For how long, in ms of the locks' time; a call that waits for longer gets the lock then.
   * @default until it is freed
   */
  forMs?: number | undefined;
}

const busyNames: NamesOf<BusyOptions> = { mode: true, forMs: true };
const BUSY_OPTIONS: OptionList = { names: busyNames, example: '{ forMs: 5000 }' };
/** Longer leases are not what a test of an application is about. */
const LONGEST_LEASE_MS = 2 ** 40;
/** For how long time passes by itself for somebody who has no end to his wait. */
const LONGEST_WAIT_MS = 3_600_000;
const ELSEWHERE = 'elsewhere.';

export class TestStore {
  readonly clock = new TestClock();
  readonly memory = new MemoryStore({ clock: this.clock, maxLeaseMs: LONGEST_LEASE_MS });
  /** Why nothing can be asked, while the test has the store down. */
  outage: LockStoreError | undefined;
  private readonly listeners = new Set<(wake: Wake) => void>();
  /** Requests that were not served yet, and whether their last question was answered. */
  private readonly waiting = new Map<string, { readonly key: string; readonly answered: boolean }>();
  /** Ids that an application of the test holds and has not given back. */
  private readonly held = new Set<string>();
  private staged = 0;
  private passing = false;
  private stirred = false;

  constructor() {
    this.memory.onWake((wake) => this.deliver(wake));
  }

  onWake(listener: (wake: Wake) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** @throws LockStoreError while the store is down */
  assertUp(): void {
    if (this.outage) throw this.outage;
  }

  asked({ key, id, replaces }: AcquireRequest, outcome: AcquireOutcome | undefined): void {
    if (replaces !== undefined) this.held.delete(replaces);
    if (outcome?.kind === 'granted') this.granted(id);
    else if (outcome === undefined || outcome.kind === 'waiting') this.waiting.set(id, { key, answered: outcome !== undefined });
    else this.forget(id);
    this.stir();
  }

  granted(id: string): void {
    this.waiting.delete(id);
    this.held.add(id);
  }

  /** This id is given back, whether or not the store can be told. */
  forget(id: string): void {
    this.waiting.delete(id);
    this.held.delete(id);
    this.stir();
  }

  /** A process ended. What it holds stays taken for the rest of its lease. */
  forgetProcess(process: string): void {
    for (const id of [...this.waiting.keys(), ...this.held]) if (id.startsWith(`${process}.`)) this.forget(id);
  }

  /** @throws LockUsageError when somebody holds the lock */
  async makeBusy(key: string, options: BusyOptions): Promise<void> {
    checkKey(key);
    const problem = optionsProblem(options, BUSY_OPTIONS);
    if (problem !== undefined) throw new LockUsageError(`TestLocks.busy('${key}'): ${problem}.`, { key });
    const { mode = 'write', forMs = LONGEST_LEASE_MS } = options;
    checkMode(mode, key);
    checkMs('forMs', forMs);
    const id = `${ELSEWHERE}${(this.staged += 1)}`;
    const terms = { leaseMs: forMs, queue: false, fences: 1, minHoldMs: 0, minReplicas: 0, notAfter: Infinity };
    const outcome = await this.memory.acquire(endingWith({ key, id, mode, ...terms, label: 'staged by the test' }));
    if (outcome.kind === 'granted') return;
    throw new LockUsageError(`Lock '${key}' cannot be made busy: it is held already.`, { key });
  }

  async free(key: string): Promise<void> {
    checkKey(key);
    for (const { id } of await this.holders(key)) if (id.startsWith(ELSEWHERE)) await this.memory.release({ key, id });
    await this.clock.settle();
  }

  /** @throws LockUsageError when no application of the test holds the lock */
  async lose(key: string): Promise<void> {
    checkKey(key);
    if (this.outage) throw new LockUsageError('While the store is down nobody can be told of a loss: let the lease end by advance(ms).', { key });
    const holders = (await this.holders(key)).filter(({ id }) => this.held.has(id));
    if (holders.length === 0) throw new LockUsageError(`Lock '${key}' cannot be lost: nobody in this test holds it.`, { key });
    for (const { id, fence } of holders) {
      await this.memory.forceRelease(key, fence);
      // Said here as well: a test runner may have put a fake in the place of queueMicrotask, by which the store would say it.
      this.deliver({ kind: 'lost', key, id });
    }
    await this.clock.settle();
  }

  /** Lets time pass until `promise` settles. */
  async passUntil<T>(promise: Promise<T>): Promise<T> {
    let settled = false;
    const marked = promise.finally(() => (settled = true));
    await Promise.race([marked.catch(() => undefined), this.clock.settle()]);
    while (!settled && (await this.clock.fireNext()));
    return marked;
  }

  /** Something changed: perhaps nothing but time can help somebody now. */
  stir(): void {
    this.stirred = true;
    if (this.passing) return;
    this.passing = true;
    void this.passForWaiters();
  }

  private async passForWaiters(): Promise<void> {
    while (this.stirred) {
      this.stirred = false;
      await this.clock.settle();
      const until = this.clock.now() + LONGEST_WAIT_MS;
      while ((await this.onlyTimeHelps()) && (await this.clock.fireNext(until)));
    }
    this.passing = false;
  }

  private async onlyTimeHelps(): Promise<boolean> {
    for (const { key, answered } of this.waiting.values()) {
      // Who stands for election may do so for days, and nobody in the test waits for that.
      if (roleOf(key) !== undefined) continue;
      if (!answered) return true;
      const holders = await this.holders(key);
      if (!holders.some(({ id }) => this.held.has(id))) return true;
    }
    return false;
  }

  private async holders(key: string): Promise<readonly HolderState[]> {
    return (await this.memory.inspect(key)).holders;
  }

  private deliver(wake: Wake): void {
    if (this.outage) return;
    if (wake.kind === 'granted') this.granted(wake.id);
    const told = wake.kind === 'granted' ? { ...wake, grant: wholeGrant(wake.grant) } : wake;
    for (const listener of this.listeners) listener(told);
    this.stir();
  }
}

