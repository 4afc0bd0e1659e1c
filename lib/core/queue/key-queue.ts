/**
 * The callers of this process that want one lock. The first of them asks the store, and its lease is handed on to the others.
 *
 *     IDLE ──▶ ASKING ──▶ HELD ──▶ hand on, hand on, … ──▶ yield (release and ask in one step) or release
 *                           └──(lost)──▶ ASKING, if a caller still waits
 *
 * Only callers with like options follow each other on a lease. Readers are on one lease at the same time.
 */
import { FenceDemand } from '../lease/fence-demand.js';
import type { GuardedLease } from '../lease/guarded-lease.js';
import { Alarm } from '../lease/appointment.js';
import { askTheSame, HAND_ON_WINDOW_MS, StoreLease, type LeaseKeeper } from '../lease/store-lease.js';
import type { ReleaseEnded } from '../port/lease.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant } from '../port/lock-store.js';
import type { Caller, CallerKeeper } from './caller.js';
import { CallerLine } from './caller-line.js';
import { LONGEST_BURST, type CallerQueue, type QueueParts, type ReasonToReject } from './caller-queue.js';
import { KeyLeases } from './key-leases.js';
import type { Entry } from './key-table.js';
import { ReplacedLease } from './replaced-lease.js';
import { refusal, refusedAtOnce, waitedInVain } from './refusal.js';
import type { Answer, RequestListener } from './request-parts.js';
import { StoreRequest } from './store-request.js';

type LeaseCaller = Caller<StoreLease>;

export class KeyQueue implements CallerQueue, Entry<KeyQueue>, LeaseKeeper, RequestListener, CallerKeeper<StoreLease> {
  private readonly line = new CallerLine<StoreLease>();
  private readonly leases = new KeyLeases();
  private request: StoreRequest | undefined;
  /** How many callers had come to the line when the request was made. */
  private arrivalsWhenAsked = 0;
  private isResting = false;
  /** When to look whether a caller behind a writer of this process asks the store by now; made when one first waits so. */
  private later: Alarm | undefined;
  /** Made when callers first follow each other, because most queues have a single caller. */
  private demand: FenceDemand | undefined;
  hash = 0;
  chained: KeyQueue | undefined;

  constructor(
    readonly key: string,
    private readonly parts: QueueParts,
    /** The options that its callers share, for a queue aside from the main queue of its key (see LocalQueue); else undefined. */
    readonly sharedOptions?: ResolvedOptions,
  ) {}

  /**
   * Whether a reader with these options must not wait here, because it would come after the phase of reading that it waits for: the
   * line asks the store for a writer, or for readers with which it cannot share a lease.
   */
  keepsApart(options: ResolvedOptions): boolean {
    if (this.line.first?.options.mode === 'write') return true;
    const other = this.line.first && this.line.find((caller) => caller.options.mode === 'read');
    return other ? options.minHoldMs > 0 || !askTheSame(other.options, options) : false;
  }

  /** Queues the caller, or rejects it at once when its waitMs is 0 and it cannot be served now. */
  join(caller: LeaseCaller, now: number): void {
    if (caller.options.waitMs === 0 && !this.mayServeAtOnce(caller.options, now)) return caller.reject(refusedAtOnce(this.request, caller, this.leases.isUsed));
    this.line.add(caller);
    caller.startWaiting(this);
    this.pump(now);
    if (this.request?.asker !== caller) caller.tellWaiting();
  }

  /** Called whenever the line or a lease has changed: serves the callers that wait. `now`: the time, if it is known. */
  pump(now?: number): void {
    if (this.isResting) return;
    if (this.line.size > 0) this.serve(now ?? this.parts.clock.now());
    if (this.line.size === 0) this.tidy();
  }

  leaseOf(id: string): StoreLease | undefined {
    return this.leases.find(id);
  }

  requestOf(id: string): StoreRequest | undefined {
    return this.request?.id === id ? this.request : undefined;
  }

  heardOfWaiter(id: string): void {
    this.leaseOf(id)?.heardOfWaiter();
  }

  rejectWaiting(reasonFor: ReasonToReject): void {
    this.line.reject(reasonFor);
  }

  giveUp(caller: LeaseCaller, reason: unknown): void {
    if (!this.line.remove(caller)) return;
    caller.reject(reason === undefined ? waitedInVain(this.request, caller) : reason);
    // The request keeps its place in the store's queue for the next caller, unless that one would ask for something else.
    const { first } = this.line;
    if (this.request?.asker === caller && !(first && askTheSame(first.options, caller.options))) this.dropRequest();
    this.pump();
  }

  leaseLost(_error: Error, lease: GuardedLease): void {
    this.leaseHandedOff(lease);
  }

  leaseHandedOff(lease: GuardedLease): void {
    this.leases.remove(lease);
    this.pump();
  }

  leaseChanged(): void {
    this.pump();
  }

  callerLeft(lease: StoreLease, done: ReleaseEnded): void {
    if (lease.isLost) {
      if (lease.users === 0) this.parts.background.releaseLost(lease);
      return done('lost');
    }
    if (lease.users > 0) {
      done('released');
      // The order matters: the caller that leaves has released in time, and only those that stay may lose the lease.
      return lease.loseIfOverdue();
    }
    const { line, leases, parts } = this;
    const { first } = line;
    // Only the current lease can be handed on, and not while a request for a new one is open.
    if (lease !== leases.current || !first || this.request || lease.owesNothing) return this.giveBack(lease, done);
    // The lease is handed on in the next turn of the event loop.
    if (this.isResting) return done('released');
    const now = parts.clock.now();
    if (!lease.admits(first.options, now, parts.handOn, first.arrival)) return this.ask(first, now, done);
    this.admit(first, lease, now);
    this.pump(now);
    done('released');
  }

  requestAnswered(answer: Answer): void {
    const request = this.request!;
    const { asker } = request;
    this.request = undefined;
    if (answer.kind === 'granted') this.take(request, answer.grant, answer.at);
    else if (answer.kind !== 'gone' && this.line.remove(asker)) asker.reject(refusal(answer, asker));
    this.pump(answer.kind === 'granted' ? answer.at : undefined);
  }

  /** The request was not granted at once: callers with waitMs 0 are rejected, the others begin to wait. */
  requestDelayed(): void {
    const { request } = this;
    for (const caller of this.line.all()) {
      if (caller.options.waitMs === 0) caller.giveUp(refusedAtOnce(request, caller));
      else caller.tellWaiting();
    }
  }

  /** Admits the first callers as long as the lease at hand admits them, and asks the store for the next. */
  private serve(now: number): void {
    // A machine that has just woken up may get here before its timers fire. What is found then can change the line and the lease.
    if (this.leases.current && this.leases.current.turns > 0) this.parts.watchdog.sleep.look(now);
    for (let first = this.line.first; first && !this.isResting; first = this.line.first) {
      const { current } = this.leases;
      if (!current?.admits(first.options, now, this.parts.handOn, first.arrival)) return this.ask(first, now);
      this.admit(first, current, now);
    }
  }

  private mayServeAtOnce(options: ResolvedOptions, now: number): boolean {
    const { request, parts } = this;
    const lease = this.leases.current;
    if (this.line.size === 0 && !request && (!lease || lease.admits(options, now, parts.handOn))) return true;
    // Readers share: the answer to an open request serves this caller too, and the store may grant a lease beside a read lease at hand.
    if (options.mode === 'write' || lease?.mode === 'write' || request?.wasRefused) return false;
    return this.line.every((caller) => caller.options.mode === 'read');
  }

  private admit(caller: LeaseCaller, lease: StoreLease, now: number): void {
    this.line.remove(caller);
    lease.admit(caller.options, now);
    caller.resolve(lease);
    if (lease.turns % LONGEST_BURST === 0 && this.line.size > 0) this.rest();
  }

  /** Admits no caller before the next turn of the event loop. */
  private rest(): void {
    this.isResting = true;
    this.parts.clock.nextTurn(() => {
      this.isResting = false;
      this.pump();
    });
  }

  private giveBack(lease: StoreLease, done: ReleaseEnded): void {
    this.letGo(lease);
    this.parts.background.releaseAndTell(lease, done);
    this.pump();
  }

  private letGo(lease: StoreLease): void {
    lease.letGo();
    if (this.line.size > 0) this.demand ??= new FenceDemand(this.parts.handOn);
    this.demand?.ended(lease);
    this.leases.remove(lease);
  }

  /** Asks the store for the first caller, unless a request does. A lease without users is given back in that step, and `replaced` hears of it. */
  private ask(first: LeaseCaller, now: number, replaced?: ReleaseEnded): void {
    const lease = this.leases.current;
    // By asking, a caller takes its place in the store's queue before others that come later. Behind a writer of this process it asks
    // when that has held the lock for so long that the lease is not handed on any more while others wait; before that it costs nothing.
    if (lease && lease.users > 0 && lease.mode === 'write') {
      if (!this.parts.store.capabilities.queue) return;
      const asksFrom = lease.admittedAt + HAND_ON_WINDOW_MS;
      if (now < asksFrom) return this.lookAgain(asksFrom);
    }
    if (this.request && askTheSame(this.request.options, first.options)) return;
    if (this.request) this.dropRequest();
    const unused = lease && lease.users === 0 ? lease : undefined;
    if (unused) this.letGo(unused);
    const fences = this.line.size === 1 ? 1 : this.fencesFor(first.options);
    this.arrivalsWhenAsked = this.line.arrivals;
    this.request = new StoreRequest(this.parts, first, fences, this, unused && new ReplacedLease(unused, replaced));
    this.request.ask(now);
  }

  private lookAgain(at: number): void {
    this.later ??= new Alarm((now) => this.pump(now));
    if (!this.parts.watchdog.schedule.has(this.later)) this.parts.watchdog.schedule.set(this.later, at);
  }

  private fencesFor(options: ResolvedOptions): number {
    return (this.demand ??= new FenceDemand(this.parts.handOn)).of(options, this.line.size);
  }

  private take(request: StoreRequest, grant: Grant, at: number): void {
    const { leases, parts } = this;
    const { options, wasRefused } = request;
    const ended = leases.count > 0 ? leases.takeEndedBy(grant.mode) : undefined;
    // Readers that waited when a phase of reading began enter together, past writers that wait among them. For a request that had
    // to wait the phase begins with the grant; for one granted at once, when it was made.
    const phase = wasRefused ? this.line.arrivals : this.arrivalsWhenAsked;
    const lease = new StoreLease(request, grant, at, this, parts.watchdog, phase);
    leases.add(lease);
    parts.watchdog.watch(lease, at);
    if (options.mode === 'read') this.line.bringForward((caller) => caller.arrival <= phase && askTheSame(caller.options, options));
    // A loss calls pump(), which must find the new lease in its place, and not ask the store for one.
    ended?.forEach((one) => one.lose('the store granted the lock to a later request'));
  }

  private dropRequest(): void {
    this.request!.cancel();
    this.request = undefined;
  }

  /** Called when no caller waits: drops the request, and gives back a lease without callers. */
  private tidy(): void {
    if (this.request) this.dropRequest();
    if (this.later) this.parts.watchdog.schedule.cancel(this.later);
    const { current } = this.leases;
    if (this.leases.count === 0) this.parts.queueIsIdle(this);
    else if (current && current.users === 0) this.giveBack(current, () => {});
  }
}
