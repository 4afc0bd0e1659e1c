/**
 * The way of every call for locks, from checked keys to the hold: decorators, `withLock` and `acquire` all take it. A call inside
 * a hold of the same lock re-enters that hold; every other call goes to the queue of its process (queue/local-queue.ts).
 */
import { StoreLease } from '../lease/store-lease.js';
import type { CallSite, WithLockOptions } from '../port/lock-options.js';
import { checkPermitsOf, resolveOptions } from '../port/resolve-options.js';
import type { OptionList } from '../port/option-names.js';
import type { Ticket } from '../port/ticket.js';
import type { WithAdoptedOptions } from '../port/ticket-options.js';
import { endedBy, hasAborted, reasonOf, throwIfAborted } from '../queue/abort-signals.js';
import type { WaitEnded } from '../queue/caller.js';
import type { LocalQueue } from '../queue/local-queue.js';
import { adopt } from './adoption.js';
import type { Announcer, EventSink } from './announcer.js';
import { Hold } from './hold.js';
import type { HoldHost } from './hold-host.js';
import type { Taken } from './hold-part.js';
import { runInHold } from './run-in-hold.js';
import { takeAll } from './several-keys.js';
import type { ShutdownGate } from './shutdown-gate.js';
import { abandon, isLost } from './taken.js';
import type { Tickets } from './tickets.js';
import type { Timeouts } from './timeouts.js';
import type { WaitingCalls } from './waiting-calls.js';
import { Wish, type WaitWatch } from './wish.js';
import type { Work } from './work.js';

/** The number of the last call in this process: events of several lock modules may be merged, so their calls share the numbers. */
let lastCall = 0;

interface LockCallsParts {
  readonly events: EventSink;
  readonly host: HoldHost;
  readonly queue: LocalQueue;
  readonly shutdown: ShutdownGate;
  readonly tickets: Tickets;
  readonly announcer: Announcer;
  readonly timeouts: Timeouts;
  readonly waiting: WaitingCalls;
}

export class LockCalls implements WaitWatch {
  constructor(private readonly parts: LockCallsParts) {}

  /** Notes a call for these keys, which were checked. `waitMs`: overrides the option. @throws LockUsageError for options that cannot work */
  begin(keys: readonly string[], given: (WithLockOptions & CallSite) | undefined, list?: OptionList, waitMs?: number): Wish {
    const { clock, defaults, store, context } = this.parts.host;
    const resolved = given === undefined ? defaults : resolveOptions(given, defaults, keys[0], list);
    const options = waitMs === undefined ? resolved : { ...resolved, waitMs };
    if (options.permits !== undefined) checkPermitsOf(keys, options.permits, store.capabilities);
    throwIfAborted(options.signal);
    return new Wish(keys, (lastCall += 1), options, clock.now(), context.surroundings(), this);
  }

  /** Notes a call that brings a ticket. @throws LockUsageError for options or a ticket that cannot work, before the store is asked */
  beginAdoption(text: string, given: (WithAdoptedOptions & CallSite) | undefined, list: OptionList): Wish {
    const ticket = this.parts.tickets.read(text);
    const { keys } = ticket;
    const { clock, defaults, context } = this.parts.host;
    const options = resolveOptions(given, { ...defaults, mode: 'write', minHoldMs: 0 }, keys[0], list);
    throwIfAborted(options.signal);
    return new Wish(keys, (lastCall += 1), options, clock.now(), context.surroundings(), this, undefined, ticket);
  }

  waitBegan(wish: Wish): WaitEnded | undefined {
    this.parts.announcer.waiting(wish);
    return this.parts.waiting.begin(wish);
  }

  /** Resolves with the hold of the call's locks. Rejects with the reason why one of them could not be had. */
  async acquire(wish: Wish): Promise<Hold> {
    try {
      let taken = await this.take(wish, wish.since);
      while (isLost(taken)) taken = await this.takeAnew(wish, taken);
      return this.granted(wish, taken);
    } catch (reason) {
      return this.refuse(wish, reason);
    }
  }

  /** Runs `fn` inside the hold of the call's locks. */
  run<T>(wish: Wish, fn: Work<T>, resolve: (value: T | Promise<never>) => void, reject: (reason: unknown) => void): void {
    const begin = (taken: Taken | Taken[]): void => {
      if (isLost(taken)) void this.takeAnew(wish, taken).then(begin, refuse);
      else runInHold(this.granted(wish, taken), fn, resolve, reject);
    };
    // Resolved with the rejection, and not rejected with its reason: so the stack of the error shows the caller.
    const refuse = (reason: unknown): void => resolve(this.refuse(wish, reason));
    void this.take(wish, wish.since).then(begin, refuse);
  }

  /**
   * Resolves with what the call got: leases, or parts of holds around it. Rejects with the reason why a lock could not be had. `now` is
   * the present instant, if it is known.
   */
  private take(wish: Wish, now?: number): Promise<Taken | Taken[]> {
    if (wish.ticket) return this.adopted(wish, wish.ticket);
    if (wish.keys.length === 1) return this.takeOne(wish, now);
    const { host, shutdown } = this.parts;
    return takeAll(wish, { host, shutdown, take: (one) => this.takeOne(one) });
  }

  /** Called when a lock was lost after the call got it, and no work has begun under it: the call gives everything back and asks anew. */
  private takeAnew(wish: Wish, taken: Taken | readonly Taken[]): Promise<Taken | Taken[]> {
    const { signal, mode } = wish.options;
    for (const one of taken instanceof Array ? taken : [taken]) abandon(one, mode, this.parts.host.clock.now(), () => {});
    return signal && hasAborted(signal) ? Promise.reject(reasonOf(signal)) : this.take(wish);
  }

  /** Gets one lock: by re-entering a hold of it that surrounds the call, else from the queue. */
  private takeOne(wish: Wish, now?: number): Promise<Taken> {
    const { host, shutdown, queue } = this.parts;
    if (wish.around && host.context.find(wish.key)) return this.reenter(wish);
    const refusal = shutdown.refusal(wish.key, wish.insideHold);
    return refusal ? Promise.reject(refusal) : queue.acquire(wish, now);
  }

  private async reenter(wish: Wish): Promise<Taken> {
    const { context } = this.parts.host;
    const part = await context.reenter(wish);
    return part ?? this.takeOne(wish.inside(context.surroundings()));
  }

  private adopted(wish: Wish, ticket: Ticket): Promise<Taken[]> {
    const { host: { store, clock, watchdog, defaults }, queue, shutdown } = this.parts;
    const refusal = (key: string): Error | undefined => shutdown.refusal(key, wish.insideHold);
    return adopt(ticket, wish, { tickets: store.tickets!, server: store.server, clock, watchdog, queue, defaults, open: shutdown.adoptions, refusal });
  }

  private granted({ call, options, since, ticket }: Wish, given: Taken | Taken[]): Hold {
    const { host, shutdown, events, announcer } = this.parts;
    const taken = Array.isArray(given) ? given : [given];
    shutdown.holdBegan();
    const [first] = taken;
    const hold = new Hold(host, taken, ticket && first instanceof StoreLease ? first.options : options, call);
    if (events.observed) announcer.began(ticket ? 'adopted' : 'granted', hold, hold.startedAt - since);
    return hold;
  }

  /** Emits the event of a call that got no lock, and rejects with the reason; a LockTimeoutError names the holders if the call can wait for them. */
  private async refuse(wish: Wish, reason: unknown): Promise<never> {
    const { waitMs, expectsBusy, signal } = wish.options;
    const { announcer, host, timeouts } = this.parts;
    const isCancelled = endedBy(signal, reason);
    announcer.refused(wish, isCancelled ? undefined : reason, host.clock.now() - wish.since);
    if (waitMs > 0 && !expectsBusy && !isCancelled) return timeouts.reject(reason);
    throw reason;
  }
}
