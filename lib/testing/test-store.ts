/**
 * The store that all applications of a test share: the embedded store on a clock that stands still, with the faults that the test
 * causes.
 *
 * Time passes by itself in one case only: a call waits, and nothing but time can end its wait. That is so when no application of the
 * test holds the lock (the test made it busy, or minHoldMs keeps it taken), or when the store does not respond. While code of
 * the test can end every wait, the clock stands still.
 */
import { LockUsageError, type LockStoreError } from '../core/port/errors.js';
import { checkKey, roleOf } from '../core/key/check-key.js';
import { isTicketId, readTicket, ticketIdOf } from '../core/port/ticket.js';
import type { LockMode } from '../core/port/lock-options.js';
import type { HolderState } from '../core/port/lock-state.js';
import type { AcquireOutcome, AcquireRequest, HolderRef, Wake } from '../core/port/lock-store.js';
import { MemoryStore } from '../stores/memory/memory-store.js';
import { TestClock } from './test-clock.js';
import { HALF_MS, wholeGrant } from './whole-milliseconds.js';

/** How much time passes by itself at most for one wait, in ms, because a call may wait for ever. */
const LONGEST_WAIT_MS = 3_600_000;
const ELSEWHERE = 'elsewhere.';

/** A request to the store that is not granted, because the lock is taken or the store is down. */
interface Wait {
  readonly key: string;
  /** True if the store answered the last time when the request asked. */
  readonly answered: boolean;
  /** Until when time may pass by itself for this wait; undefined while code of the test can end it. */
  until: number | undefined;
}

export class TestStore {
  readonly clock = new TestClock();
  readonly memory = new MemoryStore(this.clock);
  /** The error of every command while the store is down; undefined while it is up. */
  outage: LockStoreError | undefined;
  private readonly listeners = new Set<(wake: Wake) => void>();
  /** The waits of requests, by their ids. */
  private readonly waiting = new Map<string, Wait>();
  /** The ids of leases that an application of the test holds, and of tickets, which code of the test can adopt. */
  private readonly held = new Set<string>();
  /** The ends of tickets whose time the test has ended, by their ids. */
  private readonly late = new Map<string, number>();
  private staged = 0;
  private passing = false;
  private stirred = false;

  constructor() {
    this.memory.onWake((wake) => this.deliver(wake));
  }

  /** Calls `listener` with every wake, until the returned function is called. */
  onWake(listener: (wake: Wake) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Does nothing while the store is up. @throws LockStoreError while it is down */
  assertUp(): void {
    if (this.outage) throw this.outage;
  }

  /** Notes a hand-off or an adoption, which asks again by itself while the store is down. @throws LockStoreError while it is down */
  assertUpFor(ref: HolderRef): void {
    if (!this.outage) return void this.waiting.delete(ref.id);
    this.waits(ref, false);
    this.stir();
    throw this.outage;
  }

  /** Ends the outage. Each wait may take an hour from now on, because a request learns of it after the pause that its last try began. */
  goUp(): void {
    this.outage = undefined;
    this.grantTime(this.waiting.values());
  }

  /**
   * Notes that a call begins to wait. It may wait for a request that an earlier call made, and for which no more time passes by itself. So time
   * may pass anew for all requests for this lock.
   */
  callWaits(key: string): void {
    this.grantTime([...this.waiting.values()].filter((wait) => wait.key === key));
  }

  /** Notes the outcome of a request; undefined when the store was down. */
  asked({ key, id, replaces }: AcquireRequest, outcome: AcquireOutcome | undefined): void {
    if (replaces !== undefined) this.held.delete(replaces);
    if (outcome?.kind === 'granted') this.granted(id);
    else if (outcome === undefined || outcome.kind === 'waiting') this.waits({ key, id }, outcome !== undefined);
    else this.forget(id);
    this.stir();
  }

  /** Notes that this id was granted its lock. */
  granted(id: string): void {
    this.waiting.delete(id);
    this.held.add(id);
  }

  /** Notes that this id was released or lost its lock, or waits no more, whether or not the store is up. */
  forget(id: string): void {
    this.waiting.delete(id);
    this.held.delete(id);
    this.stir();
  }

  /** Notes that an application ended. Its locks stay taken until their leases end, and its tickets can be adopted by others. */
  forgetProcess(process: string): void {
    for (const id of [...this.waiting.keys(), ...this.held]) if (id.startsWith(`${process}.`) && !isTicketId(id)) this.forget(id);
  }

  /** Holds the lock as another process would. @throws LockUsageError when the lock is held */
  async makeBusy(key: string, mode: LockMode, forMs: number): Promise<void> {
    if (await this.stage({ key, mode, leaseMs: forMs - HALF_MS })) return;
    throw new LockUsageError(`Lock '${key}' cannot be made busy: it is held already.`, { key });
  }

  /** Asks for a lock. One that the test made busy is busy for calls with any number of permits, and for those without. */
  async acquire(request: AcquireRequest): Promise<AcquireOutcome> {
    const outcome = await this.memory.acquire(request);
    return outcome.kind === 'permits' && (await this.stageAnew(request)) ? this.memory.acquire(request) : outcome;
  }

  async free(key: string): Promise<void> {
    checkKey(key);
    for (const { id } of await this.holders(key)) if (id.startsWith(ELSEWHERE)) await this.memory.release({ key, id });
    await this.clock.settle();
  }

  /** Takes the lock from the applications that hold it. @throws LockUsageError when none does, or the store is down */
  async lose(key: string): Promise<void> {
    checkKey(key);
    if (this.outage) throw new LockUsageError(`Lock '${key}' cannot be lost while the store is down, because no wake can be delivered: let the lease end by advance(ms).`, { key });
    const holders = (await this.holders(key)).filter(({ id }) => this.held.has(id));
    if (holders.length === 0) throw new LockUsageError(`Lock '${key}' cannot be lost: nobody in this test holds it.`, { key });
    for (const { id, fence } of holders) {
      await this.memory.forceRelease(key, fence);
      // The wake is delivered here as well, so that the holder learns of its loss before the embedded store delivers its own wake.
      this.deliver({ kind: 'lost', key, id });
    }
    await this.clock.settle();
  }

  /** Ends the time of a ticket. @throws LockUsageError when there is no such ticket (any more), or the store is down */
  async makeLate(text: string): Promise<void> {
    const ticket = readTicket(text);
    const [key] = ticket.keys as [string];
    if (this.outage) throw new LockUsageError(`Lock '${key}': its ticket cannot be made late while the store is down.`, { key });
    const id = ticketIdOf(ticket);
    const there = await Promise.all(ticket.keys.map(async (each) => (await this.holders(each)).some((holder) => holder.id === id)));
    if (!there.every(Boolean)) throw new LockUsageError(`Lock '${key}': its ticket is of no use any more: it was adopted, or its time is over.`, { key });
    for (const each of ticket.keys) await this.memory.release({ key: each, id });
    this.late.set(id, ticket.until);
    this.forget(id);
    await this.clock.settle();
  }

  /** When the time of a ticket ended that the test has ended, on the clock of the locks. */
  endOfLate(ticketId: string): number | undefined {
    return this.late.get(ticketId);
  }

  /** Lets time pass until `promise` settles. */
  async passUntil<T>(promise: Promise<T>): Promise<T> {
    let settled = false;
    const marked = promise.finally(() => (settled = true));
    await Promise.race([marked.catch(() => undefined), this.clock.settle()]);
    while (!settled && (await this.clock.fireNext()));
    return marked;
  }

  /** Lets time pass, after something has changed, if a call waits now that only time can help. */
  stir(): void {
    this.stirred = true;
    if (this.passing) return;
    this.passing = true;
    void this.passForWaiters();
  }

  /** Notes that a request waits. One that asks again and again gets no more time by that. */
  private waits({ key, id }: HolderRef, answered: boolean): void {
    this.waiting.set(id, { key, answered, until: this.waiting.get(id)?.until });
  }

  /** Lets an hour pass from now on for each of these waits, if only time can end it. */
  private grantTime(waits: Iterable<Wait>): void {
    for (const wait of waits) wait.until = undefined;
    this.stir();
  }

  /** Takes the lock as another process would, with all permits if there are any. */
  private async stage(how: Pick<AcquireRequest, 'key' | 'mode' | 'leaseMs' | 'permits'>): Promise<boolean> {
    const terms = { queue: false, fences: 1, minHoldMs: 0, minReplicas: 0, notAfter: Infinity, label: 'staged by the test' };
    for (let left = how.permits ?? 1; left > 0; left -= 1) {
      const { kind } = await this.memory.acquire({ ...how, ...terms, id: `${ELSEWHERE}${(this.staged += 1)}` });
      if (kind !== 'granted') return false;
    }
    return true;
  }

  /** Keeps a lock busy with so many permits as a call names; false when somebody of the test has it or waits for it. */
  private async stageAnew({ key, permits }: AcquireRequest): Promise<boolean> {
    const { mode, holders, waiters } = await this.memory.inspect(key);
    if (mode === null || waiters.length > 0 || !holders.every(({ id }) => id.startsWith(ELSEWHERE))) return false;
    for (const { id } of holders) await this.memory.release({ key, id });
    return this.stage({ key, mode, permits, leaseMs: holders[0]!.remainingMs });
  }

  private async passForWaiters(): Promise<void> {
    while (this.stirred) {
      this.stirred = false;
      await this.clock.settle();
      while (await this.clock.passOn(await this.endOfWaits()));
    }
    this.passing = false;
  }

  /** Until when time may pass by itself: an hour for each wait that only time can end, from the moment at which that is so. */
  private async endOfWaits(): Promise<number> {
    let end = -Infinity;
    for (const wait of this.waiting.values()) {
      const { key } = wait;
      // Who stands for election may do so for days, and nobody in the test waits for that.
      if (roleOf(key) !== undefined) continue;
      wait.until = (await this.onlyTimeHelps(wait)) ? (wait.until ?? this.clock.now() + LONGEST_WAIT_MS) : undefined;
      end = Math.max(end, wait.until ?? -Infinity);
    }
    return end;
  }

  private async onlyTimeHelps({ key, answered }: Wait): Promise<boolean> {
    return !answered || !(await this.holders(key)).some(({ id }) => this.held.has(id));
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

