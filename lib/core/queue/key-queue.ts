/**
 * The queue of a key: the calls of this process that want one lock, in one line; one request to the store for the first of them; and
 * the lease that it brings, which is handed on to the others.
 *
 *     IDLE ──▶ ASKING ──▶ HELD ──▶ hand on, hand on, … ──▶ yield (release and ask in one step) or release
 *                           └──(lost)──▶ ASKING, if a call still waits
 *
 * Only calls with like options follow each other on a lease. Readers are on one lease at the same time. There are several leases when
 * readers took a new one beside an earlier read lease: the readers on the earlier ones go on, and nobody joins them.
 */
import { Alarm } from '../lease/schedule.js';
import { askTheSame, HAND_ON_WINDOW_MS, StoreLease, type LeaseKeeper, type LeaseUser } from '../lease/store-lease.js';
import type { LockMode, ResolvedOptions } from '../port/lock-options.js';
import type { Grant } from '../port/lock-store.js';
import { CallLine, type Call, type CallKeeper, type ReasonToReject } from './call.js';
import type { Entry } from './key-table.js';
import type { LocalQueue } from './local-queue.js';
import { refusalError, refusedAtOnce, waitedInVain } from './refusal.js';
import { StoreRequest, type Refusal, type RequestListener } from './store-request.js';

/** How many calls are admitted in a row before the event loop gets a turn, so that timers and sockets are served too. */
export const LONGEST_BURST = 64;
/** While others want the lock, a lease gets at most so many fences; else at least so many, and at most LARGEST_BLOCK. */
const SMALL_BLOCK = 256;
export const LARGEST_BLOCK = 4096;

const NONE: readonly StoreLease[] = [];
/** The last user of a lease that nobody used: nobody waits to hear how its release ends. */
export const NOBODY: Pick<LeaseUser, 'left'> = { left: () => {} };

/** A queue in which calls of this process wait for one lock. */
export interface CallQueue extends CallKeeper {
  readonly key: string;
  /** The options that its calls share, for a queue aside from the main queue of its key (see LocalQueue); else undefined. */
  readonly sharedOptions?: ResolvedOptions | undefined;
  /** The lease that is held under this id. */
  leaseOf(id: string): StoreLease | undefined;
  /** The open request with this id. */
  requestOf(id: string): StoreRequest | undefined;
  /** Rejects every call that still waits and for whom there is a reason. */
  rejectWaiting(reasonFor: ReasonToReject): void;
}

export class KeyQueue implements CallQueue, Entry<KeyQueue>, LeaseKeeper, RequestListener {
  private readonly line = new CallLine();
  /** The lease to which calls are admitted, and the earlier ones of readers. */
  private lease: StoreLease | undefined;
  private earlier = NONE;
  private request: StoreRequest | undefined;
  /** How many calls had come to the line when the request was made. */
  private arrivalsWhenAsked = 0;
  private isResting = false;
  /** When to look whether a call behind a writer of this process asks the store by now; made when one first waits so. */
  private later: Alarm | undefined;
  /** Whether other processes waited for the lock when its last lease ended, and how many fences that had if all of them were used, else 0. */
  private wasContended = true;
  private usedUpFences = 0;
  hash = 0;
  chained: KeyQueue | undefined;

  constructor(
    readonly key: string,
    private readonly host: LocalQueue,
    readonly sharedOptions?: ResolvedOptions,
  ) {
    this.lease = this.request = this.later = this.chained = undefined;
  }

  /**
   * Whether a reader with these options needs a queue of its own: here it would wait for a writer, or for readers whose lease it cannot
   * share, though the store would let it in.
   */
  keepsApart(options: ResolvedOptions): boolean {
    if (this.line.first?.options.mode === 'write') return true;
    const other = this.line.first && this.line.find((call) => call.options.mode === 'read');
    return other ? options.minHoldMs > 0 || !askTheSame(other.options, options) : false;
  }

  join(call: Call, now: number): void {
    if (call.options.waitMs === 0 && !this.mayServeAtOnce(call.options, now)) return call.reject(refusedAtOnce(this.request, call, (this.lease?.users ?? 0) > 0));
    this.line.add(call);
    call.startWaiting();
    this.pump(now);
    if (this.request?.asker !== call) call.tellWaiting();
  }

  leaseOf(id: string): StoreLease | undefined {
    return this.lease?.id === id ? this.lease : this.earlier.find((lease) => lease.id === id);
  }

  requestOf(id: string): StoreRequest | undefined {
    return this.request?.id === id ? this.request : undefined;
  }

  rejectWaiting(reasonFor: ReasonToReject): void {
    this.line.reject(reasonFor);
  }

  giveUp(call: Call, reason: unknown): void {
    if (!this.line.remove(call)) return;
    call.reject(reason === undefined ? waitedInVain(this.request, call) : reason);
    // The request keeps its place in the store's queue for the next call, unless that one would ask for something else.
    const { first } = this.line;
    if (this.request?.asker === call && !(first && askTheSame(first.options, call.options))) this.dropRequest();
    this.pump();
  }

  leaseEnded(lease: StoreLease): void {
    this.remove(lease);
    this.pump();
  }

  leaseChanged(): void {
    this.pump();
  }

  userLeft(lease: StoreLease, user: LeaseUser): void {
    if (lease.state === 'lost') {
      if (lease.users === 0) this.host.background.releaseLost(lease);
      return user.left('lost');
    }
    if (lease.users > 0) {
      user.left('released');
      // The order matters: the user that leaves has released in time, and only those that stay may lose the lease.
      return lease.loseIfOverdue();
    }
    const { first } = this.line;
    // Only the current lease can be handed on, and not while a request for a new one is open.
    if (lease !== this.lease || !first || this.request || lease.owesNothing) return this.giveBack(lease, user);
    // The lease is handed on in the next turn of the event loop.
    if (this.isResting) return user.left('released');
    const now = this.host.clock.now();
    // The lease has no users and no request is open, so `ask` sends one, and tells the user.
    if (!lease.admits(first.options, now, this.host.handOn, first.arrival)) return this.ask(first, now, user);
    this.admit(first, lease, now);
    this.pump(now);
    user.left('released');
  }

  requestGranted(request: StoreRequest, grant: Grant, now: number): void {
    const { options, wasRefused } = request;
    this.request = undefined;
    const ended = this.lease ? this.takeEndedBy(grant.mode) : NONE;
    // Readers that waited when a phase of reading began enter together, past writers that wait among them. For a request that had
    // to wait the phase begins with the grant; for one granted at once, when it was made.
    const phase = wasRefused ? this.line.arrivals : this.arrivalsWhenAsked;
    const lease = new StoreLease(request, grant, now, this, this.host.watchdog, phase);
    if (this.lease) this.earlier = [...this.earlier, this.lease];
    this.lease = lease;
    this.host.watchdog.watch(lease, now);
    if (options.mode === 'read') this.line.bringForward((call) => call.arrival <= phase && askTheSame(call.options, options));
    // A loss calls pump(), which must find the new lease in its place, and not ask the store for one.
    for (const one of ended) one.lose('gone', 'the store granted the lock to a later request');
    // A call that is alone needs no second look at what was judged just now.
    const { first } = this.line;
    if (this.line.size === 1 && first === request.asker && this.lease === lease && !this.isResting) this.admit(first, lease, now);
    else this.pump(now);
  }

  requestRefused({ asker }: StoreRequest, refusal: Refusal | undefined): void {
    this.request = undefined;
    if (refusal && this.line.remove(asker)) asker.reject(refusalError(refusal, asker));
    this.pump();
  }

  /** The request was not granted at once: calls with waitMs 0 are rejected, the others begin to wait. */
  requestDelayed(request: StoreRequest): void {
    for (const call of this.line.all()) {
      if (call.options.waitMs === 0) call.giveUp(refusedAtOnce(request, call));
      else call.tellWaiting();
    }
  }

  /**
   * Brings the queue forward whenever the line or a lease has changed: admits the first calls as long as the lease admits them, asks the
   * store for the next, and when no call waits gives up what nobody uses. `now`: the time, if it is known.
   */
  private pump(now?: number): void {
    if (this.isResting) return;
    if (this.line.first) {
      now ??= this.host.clock.now();
      // A machine that has just woken up may get here before its timers fire. What is found then can change the line and the lease.
      if (this.lease && this.lease.turns > 0) this.host.watchdog.sleep.look(now);
      for (let { first } = this.line; first && !this.isResting; first = this.line.first) {
        const { lease } = this;
        if (!lease?.admits(first.options, now, this.host.handOn, first.arrival)) return this.ask(first, now);
        this.admit(first, lease, now);
      }
    }
    if (this.line.first) return;
    if (this.request) this.dropRequest();
    if (this.later) this.host.watchdog.schedule.cancel(this.later);
    if (this.lease?.users === 0) this.giveBack(this.lease, NOBODY);
    else if (!this.lease && this.earlier === NONE) this.host.forget(this);
  }

  private mayServeAtOnce(options: ResolvedOptions, now: number): boolean {
    const { request, host, lease } = this;
    if (this.line.size === 0 && !request && (!lease || lease.admits(options, now, host.handOn))) return true;
    // Readers share: the answer to an open request serves this call too, and the store may grant a lease beside a read lease at hand.
    if (options.mode === 'write' || lease?.mode === 'write' || request?.wasRefused) return false;
    return !this.line.find((call) => call.options.mode === 'write');
  }

  private admit(call: Call, lease: StoreLease, now: number): void {
    this.line.remove(call);
    lease.admit(call.options, now);
    call.serve(lease);
    if (lease.turns % LONGEST_BURST === 0 && this.line.size > 0) this.rest();
  }

  /** Admits no call before the next turn of the event loop. */
  private rest(): void {
    this.isResting = true;
    this.host.clock.nextTurn(() => {
      this.isResting = false;
      this.pump();
    });
  }

  private giveBack(lease: StoreLease, user: Pick<LeaseUser, 'left'>): void {
    this.letGo(lease);
    this.host.background.releaseAndTell(lease, user);
    this.pump();
  }

  private letGo(lease: StoreLease): void {
    lease.letGo();
    // Without a call in the line nobody will ask for more fences.
    if (this.line.first) {
      this.wasContended = lease.contended;
      this.usedUpFences = lease.usedUpFences;
    }
    if (this.lease === lease) this.lease = undefined;
    else this.remove(lease);
  }

  /** Asks the store for the first call, unless a request does. A lease without users is given back in that step, and its last user hears of it. */
  private ask(first: Call, now: number, user?: LeaseUser): void {
    const { lease, host } = this;
    // By asking, a call takes its place in the store's queue before others that come later. Behind a writer of this process it asks
    // when that has held the lock for so long that the lease is not handed on any more while others wait; before that it costs nothing.
    if (lease && lease.users > 0 && lease.mode === 'write') {
      if (!host.store.capabilities.queue) return;
      const asksFrom = lease.admittedAt + HAND_ON_WINDOW_MS;
      if (now < asksFrom) return this.lookAgain(asksFrom);
    }
    if (this.request && askTheSame(this.request.options, first.options)) return;
    if (this.request) this.dropRequest();
    const unused = lease?.users === 0 ? lease : undefined;
    if (unused) this.letGo(unused);
    this.arrivalsWhenAsked = this.line.arrivals;
    const fences = this.line.size === 1 ? 1 : this.fencesFor(first.options);
    this.request = new StoreRequest(host, first, fences, this, unused, user);
    this.request.ask(now);
  }

  private lookAgain(at: number): void {
    const { schedule } = this.host.watchdog;
    this.later ??= new Alarm((now) => this.pump(now));
    if (!schedule.has(this.later)) schedule.set(this.later, at);
  }

  /**
   * How many fences to reserve with the next lease: one for each call that is likely to follow on it. They come from the store's clock,
   * in microseconds, and reserved ones that nobody uses must not run ahead of it. So a lease gets a large block only when the lease
   * before used up its own: each of its fences was a turn, and a turn takes more than a microsecond.
   */
  private fencesFor({ mode, minHoldMs }: ResolvedOptions): number {
    const { line: { size }, host: { handOn } } = this;
    if (mode === 'read' || minHoldMs > 0 || handOn === 1) return 1;
    if (this.wasContended) return Math.min(SMALL_BLOCK, Math.max(size, handOn));
    return Math.min(LARGEST_BLOCK, Math.max(SMALL_BLOCK, 4 * this.usedUpFences));
  }

  private dropRequest(): void {
    this.request!.cancel();
    this.request = undefined;
  }

  /**
   * Takes out the leases that have ended in the store, although no answer has said so: a grant to write ends all before it, and a grant
   * to read one that wrote, because the store grants no writer beside another lease.
   */
  private takeEndedBy(granted: LockMode): readonly StoreLease[] {
    const ended = [...this.earlier, this.lease!].filter(({ mode }) => granted === 'write' || mode === 'write');
    for (const lease of ended) this.remove(lease);
    return ended;
  }

  private remove(lease: StoreLease): void {
    if (this.lease === lease) this.lease = undefined;
    else if (this.earlier !== NONE) this.earlier = without(this.earlier, lease);
  }
}

function without(leases: readonly StoreLease[], lease: StoreLease): readonly StoreLease[] {
  const others = leases.filter((one) => one !== lease);
  return others.length === 0 ? NONE : others;
}
