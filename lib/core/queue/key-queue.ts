/**
 * The queue of a key: the calls of this process that want one lock, in one line; one request to the store for the first of them; and
 * the lease that it brings, which is handed on to the others.
 *
 *     IDLE ──▶ ASKING ──▶ HELD ──▶ hand on, hand on, … ──▶ yield (give back and ask in one step) or give back
 *                           └──(lost)──▶ ASKING, if a call still waits
 *
 * Only calls with like options follow each other on a lease. Readers are on one lease at the same time. There are several leases when
 * readers took a new one beside an earlier read lease: the readers on the earlier one go on, and nobody joins them as long as the new one is
 * there.
 *
 * The queue of a lock with n permits has n places. In each stands a request or a lease, so that the process asks for no more permits than it
 * could have at a time, and the first place that comes free serves the first call. A permit is not handed on here, because the fence of each
 * hold must be above all that other processes were granted before. The store hands it on, by one command that gives it back and asks for the
 * next call: for `handOn` turns, and for 50 ms, that call gets it before those of other processes.
 */
import { Alarm } from '../lease/schedule.js';
import { askTheSame, HAND_ON_WINDOW_MS, type LastUser, type LeaseKeeper, type LeaseUser, StoreLease } from '../lease/store-lease.js';
import { LockStoreError } from '../port/errors.js';
import { asStoreError } from '../port/hold-errors.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant, Released, Reply } from '../port/lock-store.js';
import { type Call, CallLine } from './call.js';
import type { Queues } from './queues.js';
import { refusalError, refusedAtOnce, StoreRequest, waitedInVain, type Refusal } from './store-request.js';

/** How many calls are admitted in a row before the event loop gets a turn, so that timers and sockets are served too. */
const LONGEST_BURST = 64;
/** The most fences that are reserved because as many calls wait, and the most that are because the lease before used up its own. */
const SMALL_BLOCK = 256;
const LARGEST_BLOCK = 4096;

const NO_TURNS = { since: -Infinity, left: 0 };
const NO_LEASES: readonly StoreLease[] = [];
const NO_REQUESTS: readonly StoreRequest[] = [];
/** The last user of a lease that nobody used: nobody waits to hear how its release ends. */
const NOBODY: LastUser = { leaseReleased: () => {} };

export class KeyQueue extends CallLine implements LeaseKeeper {
  /** The leases, the newest first: calls are admitted to that one. Readers, or those who have a permit, may be on earlier ones. */
  private leases: readonly StoreLease[] = NO_LEASES;
  /** The open requests, the oldest first: one, or with permits one for each call in the line that could have a permit. */
  private requests: readonly StoreRequest[] = NO_REQUESTS;
  /** How many calls had come to the line when the request was made. */
  private arrivalsWhenAsked = 0;
  private isResting = false;
  /** How many calls were admitted. */
  private served = 0;
  /** When to look whether a call behind a writer of this process asks the store by now; made when one first waits so. */
  private askLater: Alarm | undefined;
  /** Permits that came from other processes stay here for a while: since when, and how often they still go to a call here before those that wait elsewhere. */
  private permitTurns = NO_TURNS;
  /** How many fences its last lease had if all of them were used, else 0. */
  private usedUpFences = 0;
  /** How many may hold the lock at a time; undefined for one writer, or readers. */
  private readonly permits = this.sharedOptions?.permits;
  /** The next queue of its chain. Only {@link Queues} writes it. */
  chained: KeyQueue | undefined;

  constructor(
    readonly key: string,
    /** Its low bits say in which chain of {@link Queues} it is. */
    readonly hash: number,
    private readonly queues: Queues,
    /** The options that its calls share, for a queue aside from the main queue of its key; else undefined. */
    readonly sharedOptions?: ResolvedOptions,
  ) {
    super();
    this.askLater = this.chained = undefined;
  }

  /**
   * True if a reader with these options needs a queue of its own: here it would wait for a writer, or for readers whose lease it cannot
   * share, though the store would let it in.
   */
  keepsApart(options: ResolvedOptions): boolean {
    const first = this.first?.options;
    return first !== undefined && (options.minHoldMs > 0 || !askTheSame(first, options));
  }

  join(call: Call, now = this.queues.clock.now()): void {
    if (call.options.waitMs === 0 && !this.mayServeAtOnce(call.options, now)) {
      const isHeldHere = this.permits === undefined && this.leases.some(({ users }) => users > 0);
      return call.rejectNextTurn(refusedAtOnce(this.requests[0], call, isHeldHere));
    }
    this.add(call);
    this.pump(now);
    if (this.requests.at(-1)?.asker !== call) call.tellWaiting();
  }

  private mayServeAtOnce(options: ResolvedOptions, now: number): boolean {
    const { leases: [lease], requests: [request] } = this;
    if (this.permits !== undefined) return this.hasRoom && !this.requests.some(({ wasDelayed }) => wasDelayed);
    if (this.size === 0 && !request && (!lease || lease.admits(options, now, this.queues.defaults.handOn))) return true;
    // Readers share: the answer to an open request serves this call too, and the store may grant a lease beside a read lease at hand.
    if (options.mode === 'write' || lease?.mode === 'write' || request?.wasDelayed) return false;
    return !this.find((call) => call.options.mode === 'write');
  }

  /**
   * Brings the queue forward whenever the line or a lease has changed: admits the first calls as long as the lease admits them, asks the
   * store for the next, and when no call waits gives up what nobody uses. `now`: the time, if it is known.
   */
  private pump(now?: number): void {
    if (this.isResting) return;
    if (this.first) {
      now ??= this.queues.clock.now();
      if (this.leases.length === 0) return this.ask(this.first, undefined, now);
      // A machine that has just woken up may get here before its timers fire. What is found then can change the line and the lease.
      if (this.leases[0]!.turns > 0) this.queues.watchdog.sleep.look(now);
      for (let { first } = this; first && !this.isResting; first = this.first) {
        const lease = this.openLease;
        if (!lease?.admits(first.options, now, this.queues.defaults.handOn, first.arrival)) return this.ask(first, lease, now);
        this.admit(first, lease, now);
      }
    }
    if (this.first) return;
    while (this.requests.length > 0) this.drop(this.requests[0]!);
    if (this.askLater) this.queues.watchdog.schedule.cancel(this.askLater);
    if (this.leases.length === 0) return this.queues.forget(this);
    const lease = this.openLease;
    if (lease?.users === 0) this.giveBack(lease, NOBODY);
  }

  /**
   * Asks the store for the first call, unless a request does; with permits for one more call, if it could have one. A lease without users is
   * given back in that step.
   */
  private ask(first: Call, lease: StoreLease | undefined, now: number): void {
    if (this.permits !== undefined) {
      if (!this.hasRoom || this.requests.length >= this.size) return;
    } else {
      // By asking, a call takes its place in the store's queue before others that come later. Behind a writer of this process it asks
      // when that has held the lock for so long that the lease is not handed on any more while others wait; before that it costs nothing.
      if (lease && lease.users > 0 && lease.mode === 'write') {
        if (!this.queues.store.capabilities.queue) return;
        const asksFrom = lease.admittedAt + HAND_ON_WINDOW_MS;
        if (now < asksFrom) return this.queues.watchdog.schedule.set((this.askLater ??= new Alarm((then) => this.pump(then))), asksFrom);
      }
      const request = this.requests[0];
      if (request && askTheSame(request.options, first.options)) return;
      if (request) this.drop(request);
    }
    if (lease?.users === 0) this.giveBack(lease, NOBODY, now);
    else this.newRequest(now);
  }

  /**
   * Makes a request for the first call that has none, and lets it ask; there is such a call, because requests are fewer than calls. `unused`: a
   * lease that the request replaces.
   */
  private newRequest(now: number, unused?: StoreLease, user?: LastUser): void {
    const { requests } = this;
    this.arrivalsWhenAsked = this.arrivals;
    const asked = requests === NO_REQUESTS ? undefined : new Set(requests.map(({ asker }) => asker));
    const asker = asked ? this.find((call) => !asked.has(call))! : this.first!;
    const fences = this.size === 1 ? 1 : this.fencesFor(asker.options);
    const handsOn = unused !== undefined && this.hasPermitTurn(now);
    if (handsOn) this.permitTurns.left -= 1;
    const request = new StoreRequest(this.queues, asker, fences, this, unused, user, handsOn);
    this.requests = requests === NO_REQUESTS ? [request] : [...requests, request];
    request.ask(now);
  }

  /**
   * How many fences to reserve with the next lease: one for each call that is likely to follow on it. They come from the store's clock,
   * in microseconds, and reserved ones that nobody uses must not run ahead of it. So a lease gets a large block only when the lease
   * before used up its own: each of its fences was a turn, and a turn takes more than a microsecond.
   */
  private fencesFor({ mode, minHoldMs, permits }: ResolvedOptions): number {
    const { size, queues: { defaults: { handOn } } } = this;
    if (mode === 'read' || minHoldMs > 0 || permits !== undefined || handOn === 1) return 1;
    return Math.min(LARGEST_BLOCK, Math.max(Math.min(size, SMALL_BLOCK), handOn, 4 * this.usedUpFences));
  }

  /** True if a place is left, in a lock with permits, in which neither a request nor a lease stands. */
  private get hasRoom(): boolean {
    return this.requests.length + this.leases.length < this.permits!;
  }

  /**
   * The store refused the request, gave it a place in its queue, or failed. Calls with waitMs 0 are rejected, the others begin to wait.
   * Readers behind a writer that waits get places of their own in the store's queue, so that they enter with the readers of other processes
   * that wait as long as they do.
   */
  requestDelayed(request: StoreRequest): void {
    const writerWaits = request.mode === 'write' && this.first?.options.mode === 'write';
    for (const call of this.calls()) {
      if (call.options.waitMs === 0) this.giveUp(call, refusedAtOnce(request, call));
      else if (writerWaits && call.options.mode === 'read' && this.remove(call)) this.queues.queueFor(call).join(call);
    }
    request.asker.tellWaiting();
  }

  requestRefused(request: StoreRequest, refusal: Refusal): void {
    const { asker } = request;
    this.forgetRequest(request);
    if (this.remove(asker)) asker.rejectNextTurn(refusalError(refusal, asker));
    this.pump();
  }

  /** `now`: when this process learned of the grant. */
  requestGranted(request: StoreRequest, grant: Grant, now: number): void {
    const { options, wasDelayed } = request;
    this.forgetRequest(request);
    // Readers that waited when a phase of reading began enter together, past writers that wait among them. For a request that had
    // to wait the phase begins with the grant; for one granted at once, when it was made.
    const lastOfPhase = wasDelayed ? this.arrivals : this.arrivalsWhenAsked;
    const lease = new StoreLease(request, grant, now, this, this.queues.watchdog, lastOfPhase);
    const before = this.leases;
    this.leases = before.length > 0 ? Array.of(lease, ...before) : lease.alone;
    this.queues.watchdog.watch(lease, now);
    if (options.mode === 'read') this.bringForward((call) => call.arrival <= lastOfPhase && askTheSame(call.options, options));
    // No answer has said of the leases before it that they ended in the store. It grants no writer beside another lease: a grant to write
    // ends all of them, and a grant to read one that wrote. A loss calls pump(), which must find the new lease in its place, and not ask for one.
    if (before.length > 0 && this.permits === undefined) {
      for (const one of before) if (one.mode === 'write' || grant.mode === 'write') one.lose('gone', 'the store granted the lock to a later request');
    }
    if (this.permits !== undefined && (wasDelayed || !request.handsOn)) this.permitCame(now);
    if (request.isForced) {
      // The message of it came before the answer with the grant, so the store is asked whether the lease is still there.
      lease.heardOfForce();
      void this.queues.watchdog.renewNow(lease);
    }
    // A call that is alone needs no second look at what was judged just now.
    const { first } = this;
    if (this.size === 1 && first === request.asker && this.leases[0] === lease && !this.isResting) this.admit(first, lease, now);
    else {
      this.pump(now);
      // Its permit may have served another call.
      request.asker.tellWaiting();
    }
  }

  /** A permit came from another process. Those that come while one goes on here stay no longer than that. */
  private permitCame(now: number): void {
    if (!this.hasPermitTurn(now)) this.permitTurns = { since: now, left: 0 };
    this.permitTurns.left += this.queues.defaults.handOn - 1;
  }

  private hasPermitTurn(now: number): boolean {
    return this.permitTurns.left > 0 && now - this.permitTurns.since < HAND_ON_WINDOW_MS;
  }

  private admit(call: Call, lease: StoreLease, now: number): void {
    this.remove(call);
    lease.admit(call.options, now);
    call.serve(lease.alone);
    this.served += 1;
    if (this.served % LONGEST_BURST === 0 && this.size > 0) this.rest();
  }

  /** Admits no call before the next turn of the event loop. */
  private rest(): void {
    this.isResting = true;
    this.queues.clock.nextTurn(() => {
      this.isResting = false;
      this.pump();
    });
  }

  /** The lease to which calls are admitted. With permits it is one that no call has had yet: there may be some that were granted while the queue rested. */
  private get openLease(): StoreLease | undefined {
    return this.permits === undefined ? this.leases[0] : this.leases.find(({ users }) => users === 0);
  }

  userLeft(lease: StoreLease, user: LeaseUser): void {
    if (lease.state === 'lost') {
      // It is released for the sake of those who wait: the store may still have it.
      if (lease.users === 0) this.queues.background.release(lease, lease.storeLengthMs);
      return user.leaseReleased('lost');
    }
    if (lease.users > 0) {
      user.leaseReleased('released');
      // The order matters: the user that leaves has released in time, and only those that stay may lose the lease.
      return lease.loseIfOverdue();
    }
    const { first } = this;
    // A call follows when it waits and no request is open for it. Readers follow each other on the newest lease only.
    const follows = first && this.requests.length < Math.min(this.size, this.permits ?? 1) && (lease === this.leases[0] || this.permits !== undefined);
    if (!follows || lease.waivesMinHold) return this.giveBack(lease, user);
    // The lease is handed on in the next turn of the event loop. A permit is not, and goes back at once.
    if (this.isResting && this.permits === undefined) return user.leaseReleased('released');
    const now = this.queues.clock.now();
    if (!lease.admits(first.options, now, this.queues.defaults.handOn, first.arrival)) return this.giveBack(lease, user, now);
    this.admit(first, lease, now);
    this.pump(now);
    user.leaseReleased('released');
  }

  /**
   * Gives a lease back, and tells its last user how that ended; with `now` in the same step in which the store is asked for the next call, unless
   * the answer to that waits for replicas. A release that gets no answer is repeated in the background.
   */
  private giveBack(lease: StoreLease, user: LastUser, now?: number): void {
    lease.letGo();
    // Without a call in the line nobody will ask for more fences.
    if (this.first) this.usedUpFences = lease.hasFences ? 0 : lease.grant.fences;
    if (this.leases.length === 1) this.leases = NO_LEASES;
    else this.forgetLease(lease);
    if (now !== undefined && !this.first?.options.minReplicas) return this.newRequest(now, lease, user);
    const { store, background } = this.queues;
    const replied = (outcome: Reply<Released>): void => {
      const isUnknown = outcome instanceof LockStoreError;
      if (isUnknown) background.release(lease, lease.storeLengthMs);
      else background.released(lease);
      user.leaseReleased(isUnknown ? 'unknown' : outcome);
    };
    store.release(lease, replied)?.then(replied, (error: unknown) => replied(asStoreError(error, lease.key)));
    this.pump();
  }

  leaseChanged(lease: StoreLease): void {
    if (lease.state !== 'held') this.forgetLease(lease);
    // A lease without users was to be handed on in the next turn; nobody else releases it.
    if (lease.state === 'lost' && lease.users === 0) this.queues.background.release(lease, lease.storeLengthMs);
    this.pump();
  }

  giveUp(call: Call, reason: unknown): void {
    if (!this.remove(call)) return;
    // The request that was made for it, else the oldest, which may serve it as well.
    const request = this.requests.find(({ asker }) => asker === call) ?? this.requests[0];
    call.reject(reason === undefined ? waitedInVain(request, call) : reason);
    // A request keeps its place in the store's queue for the next call if that asks for the same; then nothing is sent. When no call needs a
    // request any more, the one that has waited for the shortest time is dropped: its id is released in the background.
    if (request?.asker === call && !(this.first && askTheSame(this.first.options, call.options))) this.drop(request);
    if (this.requests.length > this.size) this.drop(this.requests.at(-1)!);
    this.pump();
  }

  private drop(request: StoreRequest): void {
    this.forgetRequest(request);
    request.cancel();
    request.asker.tellWaiting();
  }

  private forgetRequest(request: StoreRequest): void {
    this.requests = this.requests.length === 1 ? NO_REQUESTS : this.requests.filter((one) => one !== request);
  }

  private forgetLease(lease: StoreLease): void {
    this.leases = this.leases.filter((one) => one !== lease);
  }

  leaseOf(id: string): StoreLease | undefined {
    return this.leases.find((lease) => lease.id === id);
  }

  requestOf(id: string): StoreRequest | undefined {
    return this.requests.find((request) => request.id === id);
  }
}
