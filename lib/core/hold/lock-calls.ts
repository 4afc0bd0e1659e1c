/**
 * The way of every call for locks, from checked keys to the hold: decorators, `withLock` and `acquire` all take it. A call inside
 * a hold of the same lock re-enters that hold; every other call goes to the queue of its process (queue/local-queue.ts). This
 * class also puts the parts of the core together, once for each lock module.
 */
import { StoreLease } from '../lease/store-lease.js';
import { Watchdog } from '../lease/watchdog.js';
import type { Clock } from '../port/clock.js';
import type { CallSite, ResolvedDefaults, WithLockOptions } from '../port/lock-options.js';
import { checkPermitsOf, resolveOptions } from '../port/resolve-options.js';
import type { LockStore } from '../port/lock-store.js';
import type { OptionList } from '../port/option-names.js';
import type { Report } from '../port/report.js';
import type { Ticket } from '../port/ticket.js';
import type { WithAdoptedOptions } from '../port/ticket-options.js';
import type { WaitEnded } from '../queue/caller.js';
import { LocalQueue } from '../queue/local-queue.js';
import { adopt } from './adoption.js';
import { Announcer, type EventSink } from './announcer.js';
import { abandon, isLost } from './entered.js';
import { Hold } from './hold.js';
import { HoldContext } from './hold-context.js';
import type { HoldHost } from './hold-host.js';
import { HoldersHere } from './holders-here.js';
import type { Entered } from './hold-part.js';
import { runInHold } from './run-in-hold.js';
import { enterAll } from './several-keys.js';
import { ShutdownGate } from './shutdown-gate.js';
import { Tickets } from './tickets.js';
import { Timeouts } from './timeouts.js';
import { WaitingCalls } from './waiting-calls.js';
import { Wish, type WaitWatch } from './wish.js';
import type { Work } from './work.js';

/** The number of the last call in this process: events of several lock modules may be merged, so their calls share the numbers. */
let lastCall = 0;

interface LockCallsParts {
  readonly events: EventSink;
  readonly store: LockStore;
  /** The name of this process in holder ids, and that of the lock module. */
  readonly process: string;
  readonly instance: string;
  readonly clock: Clock;
  readonly defaults: ResolvedDefaults;
  readonly report: Report | undefined;
}

export class LockCalls implements WaitWatch {
  readonly context = new HoldContext();
  readonly announcer: Announcer;
  readonly shutdown: ShutdownGate;
  readonly here: HoldersHere;
  private readonly queue: LocalQueue;
  private readonly tickets: Tickets;
  private readonly timeouts: Timeouts;
  private readonly host: HoldHost;
  private readonly waiting: WaitingCalls;

  constructor(private readonly parts: LockCallsParts) {
    const { events, store, process, instance, clock, defaults, report } = parts;
    const announcer = (this.announcer = new Announcer(events, report));
    const watchdog = new Watchdog(store, clock, (lease, cause) => {
      announcer.renewFailed(lease, cause, lease.trustedUntil - clock.now());
    });
    this.queue = new LocalQueue(store, clock, watchdog, process, defaults);
    this.shutdown = new ShutdownGate(this.queue, watchdog, clock, defaults, (holds) => announcer.overstayed(holds, defaults.shutdownGraceMs));
    this.tickets = new Tickets({ store, clock, background: this.queue.background, defaults, process, instance });
    this.here = new HoldersHere(this.queue);
    this.waiting = new WaitingCalls(clock);
    this.host = {
      store,
      clock,
      watchdog,
      context: this.context,
      defaults,
      lost: (hold, cause) => announcer.lost(hold, cause, !this.shutdown.holdLost(hold)),
      ended: (hold, outcome) => {
        if (outcome !== 'lost') this.shutdown.holdEnded();
        if (events.observed) announcer.released(hold, outcome);
      },
      handOff: (hold, given) => this.tickets.handOff(hold, given),
    };
    this.timeouts = new Timeouts(this.host, this.queue, this.here, this.waiting);
  }

  /** Notes a call for these keys, which were checked. `waitMs`: overrides the option. @throws LockUsageError for options that cannot work */
  begin(keys: readonly string[], given: (WithLockOptions & CallSite) | undefined, list?: OptionList, waitMs?: number): Wish {
    const { clock, defaults, store } = this.parts;
    const resolved = given === undefined ? defaults : resolveOptions(given, defaults, keys[0], list);
    const options = waitMs === undefined ? resolved : { ...resolved, waitMs };
    if (options.permits !== undefined) checkPermitsOf(keys, options.permits, store.capabilities);
    options.signal?.throwIfAborted();
    return new Wish(keys, (lastCall += 1), options, clock.now(), this.context.surroundings(), this);
  }

  /** Notes a call that brings a ticket. @throws LockUsageError for options or a ticket that cannot work, before the store is asked */
  beginAdoption(text: string, given: (WithAdoptedOptions & CallSite) | undefined, list: OptionList): Wish {
    const ticket = this.tickets.read(text);
    const { keys } = ticket;
    const { clock, defaults } = this.parts;
    const options = resolveOptions(given, { ...defaults, mode: 'write', minHoldMs: 0 }, keys[0], list);
    options.signal?.throwIfAborted();
    return new Wish(keys, (lastCall += 1), options, clock.now(), this.context.surroundings(), this, undefined, ticket);
  }

  waitBegan(wish: Wish): WaitEnded | undefined {
    this.announcer.waiting(wish);
    return this.waiting.begin(wish);
  }

  /** Resolves with the hold of the call's locks. Rejects with the reason why one of them could not be had. */
  async hold(wish: Wish): Promise<Hold> {
    try {
      let entered = await this.entered(wish, wish.since);
      while (isLost(entered)) entered = await this.enterAnew(wish, entered);
      return this.granted(wish, entered);
    } catch (reason) {
      return this.refuse(wish, reason);
    }
  }

  /** Runs `fn` inside the hold of the call's locks. */
  run<T>(wish: Wish, fn: Work<T>, resolve: (value: T | Promise<never>) => void, reject: (reason: unknown) => void): void {
    const begin = (entered: Entered | Entered[]): void => {
      if (isLost(entered)) void this.enterAnew(wish, entered).then(begin, refuse);
      else runInHold(this.granted(wish, entered), fn, resolve, reject);
    };
    // Resolved with the rejection, and not rejected with its reason: so the stack of the error shows the caller.
    const refuse = (reason: unknown): void => resolve(this.refuse(wish, reason));
    void this.entered(wish, wish.since).then(begin, refuse);
  }

  /**
   * Resolves with what the call got: leases, or parts of holds around it. Rejects with the reason why a lock could not be had. `now` is
   * the present instant, if it is known.
   */
  private entered(wish: Wish, now?: number): Promise<Entered | Entered[]> {
    if (wish.ticket) return this.adopted(wish, wish.ticket);
    if (wish.keys.length === 1) return this.enter(wish, now);
    return enterAll(wish, { host: this.host, shutdown: this.shutdown, enter: (one) => this.enter(one) });
  }

  /** Called when a lock was lost after the call got it, and no work has begun under it: the call gives everything back and asks anew. */
  private enterAnew(wish: Wish, entered: Entered | readonly Entered[]): Promise<Entered | Entered[]> {
    const { signal, mode } = wish.options;
    for (const one of entered instanceof Array ? entered : [entered]) abandon(one, mode, this.parts.clock.now(), () => {});
    return signal?.aborted ? Promise.reject(signal.reason) : this.entered(wish);
  }

  /** Gets one lock: by re-entering a hold of it that surrounds the call, else from the queue. */
  private enter(wish: Wish, now?: number): Promise<Entered> {
    if (wish.around && this.context.find(wish.key)) return this.enterInside(wish);
    const refusal = this.shutdown.refusal(wish.key, wish.insideHold);
    return refusal ? Promise.reject(refusal) : this.queue.acquire(wish, now);
  }

  private async enterInside(wish: Wish): Promise<Entered> {
    const part = await this.context.enter(wish);
    return part ?? this.enter(wish.inside(this.context.surroundings()));
  }

  private adopted(wish: Wish, ticket: Ticket): Promise<Entered[]> {
    const { host: { store, clock, watchdog, defaults }, queue, shutdown } = this;
    const refusal = (key: string): Error | undefined => shutdown.refusal(key, wish.insideHold);
    return adopt(ticket, wish, { tickets: store.tickets!, server: store.server, clock, watchdog, queue, defaults, open: shutdown.adoptions, refusal });
  }

  private granted({ call, options, since, ticket }: Wish, given: Entered | Entered[]): Hold {
    const entered = Array.isArray(given) ? given : [given];
    this.shutdown.holdBegan();
    const [first] = entered;
    const hold = new Hold(this.host, entered, ticket && first instanceof StoreLease ? first.options : options, call);
    if (this.parts.events.observed) this.announcer.began(ticket ? 'adopted' : 'granted', hold, hold.startedAt - since);
    return hold;
  }

  /** Emits the event of a call that got no lock, and rejects with the reason; a LockTimeoutError names the holders if the call can wait for them. */
  private async refuse(wish: Wish, reason: unknown): Promise<never> {
    const { waitMs, expectsBusy } = wish.options;
    this.announcer.refused(wish, reason, this.parts.clock.now() - wish.since);
    if (waitMs > 0 && !expectsBusy) return this.timeouts.reject(reason);
    throw reason;
  }
}
