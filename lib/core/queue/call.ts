/**
 * A call for a lock: what is wanted, until when, what surrounds the call, and how it is settled. While it waits it stands in a line,
 * and it is settled once: by a lease, by the end of its waitMs, by its signal, or by an error. A call for several locks waits
 * for them by a call for each.
 */
import type { Appointment, Schedule } from '../lease/schedule.js';
import type { LeaseUser, StoreLease } from '../lease/store-lease.js';
import type { Clock } from '../port/clock.js';
import type { Lease } from '../port/lease.js';
import type { LockMode, ResolvedOptions } from '../port/lock-options.js';
import type { BroughtTicket } from '../port/ticket.js';
import { offAbort, onAbort, reasonOf, type AbortListener } from './abort-signals.js';

/** How long a call with waitMs 0, or an adoption with a shorter one, waits for the store's first answer, in ms. */
const ANSWER_WITHIN_MS = 800;

/** The place that a call has among the nested calls of a hold whose lock it re-entered. */
export interface Reentry {
  /** This hold was made for the call. */
  began(hold: LeaseUser): void;
  /** The call, which had the lock in this mode, has ended, and its hold if there was one. */
  ended(mode: LockMode, hold?: LeaseUser): void;
}

/** What all calls of a lock module share: its core. */
export interface Core {
  readonly clock: Clock;
  readonly schedule: Schedule;
  /** Resolves with the hold of the call's locks, or rejects with the reason why one of them could not be had. */
  acquire(call: Call): Promise<Lease>;
  /** Runs `fn` inside the hold of the call's locks. */
  run<T>(call: Call, fn: (lease: Lease) => Promise<T> | T, resolve: (value: T | Promise<never>) => void, reject: (reason: unknown) => void): void;
  /** Hears once of each call that is not served at once. */
  readonly announcer: { waiting(call: Call): void };
  readonly queues: { giveUpSoon(call: Call): void };
}

/** Why a call for this lock is refused although it waits; undefined when it goes on waiting. */
export type ReasonToReject = (key: string, insideHold: boolean) => Error | undefined;

const NOTHING: readonly { readonly key: string }[] = [];

/** The number of the last call in this process: events of several lock modules may be merged, so their calls share the numbers. */
let lastNumber = 0;

export class Call implements Appointment, AbortListener {
  index = -1;
  /** A call that waits keeps the process alive. */
  readonly keepsAlive = true;
  /** The lock that it waits for; of several the first. */
  readonly key = this.keys[0]!;
  /** The local instant at which its waitMs is over. A call that wants several locks has the same instant for all of them. */
  readonly until = this.since + this.options.waitMs;
  /** Its number in this process. A call for one of several locks has that of the whole call. */
  readonly number: number;
  /** The locks that the same call has already, if it wants several. */
  taken = NOTHING;
  /** What it re-entered of the holds around it, by their leases; undefined for a call whose leases are all its own. */
  reentered: Map<StoreLease, Reentry> | undefined;
  /** The ticket that the call brings, when it adopts a hold. */
  ticket: BroughtTicket | undefined;
  /** The line in which it waits, its number among all calls that ever came there, and its neighbours. Only the line writes these fields. */
  line: CallLine | undefined;
  arrival = 0;
  before: Call | undefined;
  after: Call | undefined;
  private hasToldWaiting = false;
  /** Settle it, when it has left its line. */
  serve!: (leases: readonly StoreLease[]) => void;
  reject!: (reason: unknown) => void;

  constructor(
    /** The keys, which were checked. */
    readonly keys: readonly string[],
    readonly options: ResolvedOptions,
    /** When the call was made, in clock.now() time. */
    readonly since: number,
    /** True if a hold of any lock module surrounds the call. Then it is still served during a shutdown, because that hold may need it. */
    public insideHold: boolean,
    readonly core: Core,
    number?: number,
  ) {
    this.number = number ?? (lastNumber += 1);
    // What has no value yet is set as well, in one order, so that V8 gives all calls one shape. Queues, requests, leases and holds do the same.
    this.reentered = this.ticket = this.line = this.before = this.after = undefined;
  }

  /** The call for one of several locks. */
  forKey(key: string, options: ResolvedOptions): Call {
    const one = new Call([key], options, this.since, this.insideHold, this.core, this.number);
    one.ticket = this.ticket;
    one.reentered = this.reentered ??= new Map();
    return one;
  }

  /**
   * Resolves with the lease that this queue lets it use, the only one for now. Rejects with LockTimeoutError, LockStoreError, LockUsageError or
   * signal.reason. A call that was settled may wait anew.
   */
  waitIn(queue: CallLine, now: number): Promise<readonly StoreLease[]> {
    return new Promise((resolve, reject) => {
      this.serve = resolve;
      this.reject = reject;
      queue.join(this, now);
    });
  }

  /**
   * Rejects it, when it is refused, in the next turn of the event loop. A refusal may be known without waiting for anything, and whoever tries
   * again at once, in a loop, would otherwise stop the event loop, and with it all that could serve the call.
   */
  rejectNextTurn(reason: unknown): void {
    this.core.clock.nextTurn(() => this.reject(reason));
  }

  /** The time to wait is over. */
  due(): void {
    this.core.queues.giveUpSoon(this);
  }

  /** The signal of the call has aborted. */
  aborted(): void {
    this.line?.giveUp(this, reasonOf(this.options.signal!));
  }

  /** Reports, once, that this call waits. */
  tellWaiting(): void {
    if (!this.line || this.hasToldWaiting) return;
    this.hasToldWaiting = true;
    this.core.announcer.waiting(this);
  }
}

/**
 * A line of calls that wait for one lock, in the order in which they came: a linked list, so that a call can leave from anywhere. As long as
 * a call is in it, the line hears when the time of the call is over, or its signal aborts.
 */
export abstract class CallLine {
  /** How many calls are in the line, how many have ever come, and which is first. Only the line itself writes these fields. */
  size = 0;
  protected arrivals = 0;
  first: Call | undefined = undefined;
  private last: Call | undefined = undefined;

  /** Serves the call, now or later, or rejects it: at once when its waitMs is 0 and it cannot be served now. */
  abstract join(call: Call, now: number): void;

  /**
   * The call's waitMs is over (`reason` is undefined), or its signal aborted with this reason, which may be null. It may have left the
   * line before; then nothing happens.
   */
  abstract giveUp(call: Call, reason: unknown): void;

  /** Puts the call at the end of the line. */
  protected add(call: Call, arrival = (this.arrivals += 1)): void {
    call.line = this;
    call.arrival = arrival;
    this.size += 1;
    call.before = this.last;
    if (this.last) this.last.after = call;
    else this.first = call;
    this.last = call;
    const { core: { schedule }, since, until, ticket, options: { waitMs, signal } } = call;
    schedule.set(call, waitMs === 0 || ticket ? Math.max(until, since + ANSWER_WITHIN_MS) : until);
    if (signal) onAbort(signal, call);
  }

  /** Removes the call. False when it was not in the line. */
  protected remove(call: Call): boolean {
    const { line, before, after, core: { schedule }, options: { signal } } = call;
    if (line !== this) return false;
    if (before) before.after = after;
    else this.first = after;
    if (after) after.before = before;
    else this.last = before;
    call.line = call.before = call.after = undefined;
    this.size -= 1;
    schedule.cancel(call);
    if (signal) offAbort(signal, call);
    return true;
  }

  /** A copy of the line: calls may come and go while it is walked over. */
  protected calls(): Call[] {
    const calls: Call[] = [];
    for (let call = this.first; call; call = call.after) calls.push(call);
    return calls;
  }

  /** Rejects every call that waits and for whom `reasonFor` has a reason. */
  rejectWaiting(reasonFor: ReasonToReject): void {
    for (const call of this.calls()) {
      const reason = reasonFor(call.key, call.insideHold);
      if (reason) this.giveUp(call, reason);
    }
  }

  /** Moves the calls for which `goesFirst` is true to the front. Among these, and among the others, the order stays. */
  protected bringForward(goesFirst: (call: Call) => boolean): void {
    // What has left the line meanwhile stays away: a signal that aborted unheard ends its call here, and the lease may admit others then.
    for (const call of this.calls()) if (!goesFirst(call) && this.remove(call)) this.add(call, call.arrival);
  }

  protected find(test: (call: Call) => boolean): Call | undefined {
    let call = this.first;
    while (call && !test(call)) call = call.after;
    return call;
  }
}
