/**
 * The callers of this process that want one lock: one of them asks the store, and the lease is handed on among them.
 *
 *     IDLE ──▶ ASKING ──▶ HELD ──▶ hand on, hand on, … ──▶ yield (release and ask in one step) or release
 *                           └──(lost)──▶ ASKING, if anybody still waits
 *
 * Only callers with like terms follow each other on a lease. Readers share one lease side by side.
 */
import { FenceDemand } from '../lease/fence-demand.js';
import type { GuardedLease } from '../lease/guarded-lease.js';
import { askAlike, StoreLease, type LeaseKeeper } from '../lease/store-lease.js';
import type { ReleaseOutcome } from '../port/lease.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant, Wake } from '../port/lock-store.js';
import type { Caller, CallerKeeper } from './caller.js';
import { CallerLine } from './caller-line.js';
import { KeyLeases } from './key-leases.js';
import { ReplacedLease } from './replaced-lease.js';
import { refusal, refusedAtOnce, waitedInVain } from './refusal.js';
import type { Answer, RequestListener, RequestParts } from './request-parts.js';
import { StoreRequest } from './store-request.js';

/** So many hand-overs follow each other without a turn of the event loop in between: timers and sockets must get their chance. */
const LONGEST_BURST = 64;

/** What the queues of a process share. */
export interface QueueParts extends RequestParts {
  readonly handOn: number;
  nextId(): string;
  /** Nobody wants or has the lock any more. */
  queueIsIdle(queue: KeyQueue): void;
}

type LeaseCaller = Caller<StoreLease>;

export class KeyQueue implements LeaseKeeper, RequestListener, CallerKeeper<StoreLease> {
  private readonly line = new CallerLine<StoreLease>();
  private readonly leases = new KeyLeases();
  private request: StoreRequest | undefined;
  private isResting = false;
  /** Made when callers follow each other. */
  private demand: FenceDemand | undefined;

  constructor(
    readonly key: string,
    private readonly parts: QueueParts,
    /** Undefined for the queue of a key; for one beside it what its callers have in common (see LocalQueue). */
    readonly aside?: ResolvedOptions,
  ) {}

  /** Whether readers wait here that could not share a lease with this one: behind them it would miss the phase that lets them in. */
  partsReaders(options: ResolvedOptions): boolean {
    const other = this.line.find((caller) => caller.options.mode === 'read');
    return other ? options.minHoldMs > 0 || !askAlike(other.options, options) : false;
  }

  /** Queues the caller, or rejects it at once when it does not want to wait. */
  enter(caller: LeaseCaller, now: number): void {
    if (caller.options.waitMs === 0 && !this.mayServeAtOnce(caller.options, now)) return caller.reject(refusedAtOnce(this.request, caller));
    this.line.add(caller);
    caller.startWaiting(this);
    this.pump(now);
    if (this.request?.asker !== caller) caller.tellWaiting();
  }

  /**
   * Somebody began to wait elsewhere, or a lease changed: look again. If that gives the lease at hand back together with a
   * new request, `replaced` is told what became of it. `at`: the time, where it is known.
   */
  pump(at?: number, replaced?: (outcome: ReleaseOutcome) => void): void {
    let now = at;
    while (!this.isResting) {
      const { first } = this.line;
      if (!first) return this.tidy();
      now ??= this.parts.clock.now();
      const { current } = this.leases;
      if (!current?.admits(first.options, now, this.parts.handOn, first.arrival)) return this.ask(first, now, replaced);
      this.admit(first, current, now);
    }
  }

  /** The lease that is held under this id. */
  leaseOf(id: string): StoreLease | undefined {
    return this.leases.find(id);
  }

  /** Whether the store is asked for the lock under this id, or gave a lease under it that is still held. */
  knows(id: string): boolean {
    return this.request?.id === id || this.leaseOf(id) !== undefined;
  }

  /** Wakes are hints: a grant counts by its own end, everything else makes us ask. */
  wake(wake: Wake): void {
    switch (wake.kind) {
      case 'granted':
      case 'ask':
        if (this.request?.id === wake.id) this.request.wake(wake.kind === 'granted' ? wake.grant : undefined);
        return;
      case 'contended':
        return this.leaseOf(wake.id)?.heardOfWaiter();
      case 'lost': {
        const lease = this.leaseOf(wake.id);
        if (lease) void this.parts.watchdog.renewNow(lease);
        return;
      }
      // Whoever tells of all queues of the lock takes care of it.
      case 'stray':
    }
  }

  /** Rejects every caller that still waits and for whom `reasonFor` has a reason. */
  rejectWaiting(reasonFor: (key: string, insideHold: boolean) => Error | undefined): void {
    for (const caller of this.line.all()) {
      const reason = reasonFor(this.key, caller.wish.insideHold);
      if (reason) this.giveUp(caller, reason);
    }
  }

  giveUp(caller: LeaseCaller, reason: unknown): void {
    if (!this.line.remove(caller)) return;
    caller.reject(reason === undefined ? waitedInVain(this.request, caller) : reason);
    // The place in the queue stays with the others of this process, unless it is of no use to the next of them.
    const { first } = this.line;
    if (this.request?.asker === caller && !(first && askAlike(first.options, caller.options))) this.dropRequest();
    this.pump();
  }

  leaseLost(_error: Error, lease: GuardedLease): void {
    this.leases.remove(lease);
    this.pump();
  }

  leaseChanged(): void {
    this.pump();
  }

  callerLeft(lease: StoreLease, done: (outcome: ReleaseOutcome) => void): void {
    if (lease.isLost) {
      // By the clock it is lost; what the store may still keep of it is taken back, so that others need not wait for its end.
      if (lease.users === 0 && !lease.goneFromStore) this.parts.background.release(lease, lease.options.leaseMs);
      return done('lost');
    }
    if (lease.users > 0) {
      done('released');
      // Afterwards: whoever leaves lost nothing.
      return lease.loseIfOverdue();
    }
    // A read lease beside which a newer one was taken is nobody's next turn.
    const hasNext = lease === this.leases.current && this.line.size > 0 && !this.request && !lease.owesNothing;
    if (!hasNext) return this.giveBack(lease, done);
    this.pump(undefined, done);
    // It was handed on, or is about to be; a yield tells `done` itself.
    if (!lease.isReleased) done('released');
  }

  requestAnswered(answer: Answer): void {
    const request = this.request!;
    const { asker } = request;
    this.request = undefined;
    if (answer.kind === 'granted') this.take(request, answer.grant, answer.at);
    else if (answer.kind !== 'gone' && this.line.remove(asker)) asker.reject(refusal(answer, asker));
    this.pump(answer.kind === 'granted' ? answer.at : undefined);
  }

  /** The store did not grant at once. */
  requestDelayed(): void {
    for (const caller of this.line.all()) {
      if (caller.options.waitMs === 0) this.giveUp(caller, refusedAtOnce(this.request, caller));
      else caller.tellWaiting();
    }
  }

  private mayServeAtOnce(options: ResolvedOptions, now: number): boolean {
    const { request, parts } = this;
    const lease = this.leases.current;
    if (this.line.size === 0 && !request && (!lease || lease.admits(options, now, parts.handOn))) return true;
    // Readers share: the answer to one that asks serves the others too, and a further lease may be had beside one at hand.
    if (options.mode === 'write' || lease?.mode === 'write' || request?.wasRefused) return false;
    return this.line.every((caller) => caller.options.mode === 'read');
  }

  private admit(caller: LeaseCaller, lease: StoreLease, now: number): void {
    this.line.remove(caller);
    lease.admit(caller.options, now);
    caller.resolve(lease);
    if (lease.turns % LONGEST_BURST === 0 && this.line.size > 0) this.rest();
  }

  private rest(): void {
    this.isResting = true;
    this.parts.clock.nextTurn(() => {
      this.isResting = false;
      this.pump();
    });
  }

  private giveBack(lease: StoreLease, done: (outcome: ReleaseOutcome) => void): void {
    this.letGo(lease);
    this.parts.background.releaseAndTell(lease, lease.options.leaseMs, done);
    this.pump();
  }

  private letGo(lease: StoreLease): void {
    lease.letGo();
    if (this.line.size > 0) this.demand ??= new FenceDemand(this.parts.handOn);
    this.demand?.ended(lease);
    this.leases.remove(lease);
  }

  /** @see pump */
  private ask(first: LeaseCaller, now: number, replaced?: (outcome: ReleaseOutcome) => void): void {
    const lease = this.leases.current;
    // Beside this process's own readers a place in the queue is taken at once, so that nobody who comes later is served
    // first; behind its own writer there is nothing to ask before that one has ended.
    if (lease && lease.users > 0 && lease.mode === 'write') return;
    if (this.request) {
      if (askAlike(this.request.asker.options, first.options)) return;
      this.dropRequest();
    }
    const unused = lease && lease.users === 0 ? lease : undefined;
    if (unused) this.letGo(unused);
    const { parts, line } = this;
    this.request = new StoreRequest(parts, parts.nextId(), first, line.arrivals, line.size === 1 ? 1 : this.fencesFor(first.options), this, unused && new ReplacedLease(unused, replaced));
    this.request.ask(now);
  }

  private fencesFor(options: ResolvedOptions): number {
    this.demand ??= new FenceDemand(this.parts.handOn);
    return this.demand.of(options, this.line.size);
  }

  private take({ id, asker, arrivals, wasRefused, lateUntil }: StoreRequest, grant: Grant, at: number): void {
    const { leases, parts } = this;
    const { options } = asker;
    const { current } = leases;
    // The store would not have granted this beside our own lease: that one has ended there, and nobody told us yet.
    if (current && (grant.mode === 'write' || current.mode === 'write')) current.lose('the store granted the lock anew');
    // A phase of reading is decided once, for all who waited when it began: they enter together, past writers that wait among
    // them. Whoever is let in at once begins one with those that were there when it asked.
    const phase = wasRefused ? this.line.arrivals : arrivals;
    const lease = new StoreLease(this.key, id, options, grant, at, phase, lateUntil, this, parts.watchdog);
    leases.add(lease);
    parts.watchdog.watch(lease, at);
    if (options.mode === 'read') this.line.bringForward((caller) => caller.arrival <= phase && askAlike(caller.options, options));
  }

  private dropRequest(): void {
    this.request?.cancel();
    this.request = undefined;
  }

  private tidy(): void {
    if (this.request) this.dropRequest();
    const { current } = this.leases;
    if (this.leases.count === 0) this.parts.queueIsIdle(this);
    else if (current && current.users === 0) this.giveBack(current, () => {});
  }
}
