/**
 * The core of one lock module, and the way of every call through it, from checked keys to the hold: decorators, `withLock` and
 * `acquire` all take it. A call inside a hold of the same lock re-enters that hold; every other call goes to the queue of its key.
 */
import type { StoreLease } from '../lease/store-lease.js';
import { Watchdog } from '../lease/watchdog.js';
import type { Schedule } from '../lease/schedule.js';
import type { Clock } from '../port/clock.js';
import type { CallSite, ResolvedDefaults, ResolvedOptions, WithAdoptedOptions, WithLockOptions } from '../port/lock-options.js';
import type { LockStore } from '../port/lock-store.js';
import { checkPermitsOf, type OptionList, resolveOptions, withinMsOf } from '../port/options.js';
import type { Report } from '../port/lock-events.js';
import type { Ticket } from '../port/ticket.js';
import { endedBy, throwIfAborted } from '../queue/abort-signals.js';
import { Call, type Core } from '../queue/call.js';
import { Queues } from '../queue/queues.js';
import { Tickets } from './tickets.js';
import { Announcer, type EventSink } from './announcer.js';
import { Election } from './leading.js';
import { Hold } from './hold.js';
import { HoldContext } from './hold-context.js';
import { Holders } from './holders.js';
import { abandon, takeAll } from './several-keys.js';
import { ShutdownGate } from './shutdown-gate.js';
import { runInHold, type Work } from './work.js';

export class LockCore implements Core {
  readonly announcer: Announcer;
  readonly context = new HoldContext();
  /** How many releases are on their way whose calls did not wait for the answer. */
  unansweredReleases = 0;
  readonly watchdog: Watchdog;
  readonly schedule: Schedule;
  readonly shutdown = new ShutdownGate(this);
  readonly holders = new Holders(this);
  readonly election = new Election(this);
  private readonly resolved = new WeakMap<WithLockOptions & CallSite, ResolvedOptions>();
  readonly queues: Queues;
  readonly tickets: Tickets;

  /** `process`: the name of this process in holder ids. `instance`: that of the lock module. */
  constructor(
    readonly store: LockStore,
    readonly clock: Clock,
    readonly defaults: ResolvedDefaults,
    process: string,
    instance: string,
    events: EventSink,
    report?: Report,
  ) {
    const announcer = (this.announcer = new Announcer(events, report));
    this.watchdog = new Watchdog(store, clock, (lease, cause) => announcer.renewFailed(lease, cause, lease.trustedUntil - clock.now()));
    this.schedule = this.watchdog.schedule;
    this.queues = new Queues(store, clock, this.watchdog, process, defaults);
    this.tickets = new Tickets(this, process, instance);
  }

  /**
   * Makes the call for these keys, which were checked. `list`: the options that it may name. `waitMs`: overrides the option.
   * @throws LockUsageError for options that cannot work
   */
  begin(keys: readonly string[], given: (WithLockOptions & CallSite) | undefined, list?: OptionList, waitMs?: number): Call {
    const { defaults, store, clock, context } = this;
    const resolved = given === undefined ? defaults : ((!list && this.resolved.get(given)) || this.resolve(given, keys[0], list));
    const options = waitMs === undefined ? resolved : { ...resolved, waitMs };
    if (options.permits !== undefined) checkPermitsOf(keys, options.permits, store.capabilities);
    if (options.signal) throwIfAborted(options.signal);
    return new Call(keys, options, clock.now(), context.isInsideAny, this);
  }

  /** Options that are frozen, as those of decorators are, are completed and checked once. */
  private resolve(given: WithLockOptions & CallSite, key: string | undefined, list?: OptionList): ResolvedOptions {
    const options = resolveOptions(given, this.defaults, key, list);
    if (!list && Object.isFrozen(given)) this.resolved.set(given, options);
    return options;
  }

  /** Makes the call that brings a ticket. @throws LockUsageError for options or a ticket that cannot work, before the store is asked */
  beginAdoption(brought: Ticket, given: (WithAdoptedOptions & CallSite) | undefined, list: OptionList): Call {
    const ticket = this.tickets.broughtHere(brought, given?.onError === 'handBack');
    const { keys } = ticket;
    const { clock, defaults, context } = this;
    withinMsOf({ withinMs: given?.withinMs }, 0, defaults, keys[0]!);
    const options = resolveOptions(given, { ...defaults, mode: 'write', minHoldMs: 0 }, keys[0], list);
    const call = new Call(keys, options, clock.now(), context.isInsideAny, this);
    call.ticket = ticket;
    return call;
  }

  acquire(call: Call): Promise<Hold> {
    return new Promise((resolve, reject) => this.run(call, undefined, resolve, reject));
  }

  /** Runs `fn` inside the hold of the call's locks; without `fn` resolves with that hold. */
  run<T>(call: Call, fn: Work<T> | undefined, resolve: (value: T | Promise<never>) => void, reject: (reason: unknown) => void): void {
    const served = (leases: readonly StoreLease[]): void => {
      // A lease may have been lost since the call got it. Its trust may have ended too, when other code of that turn blocked the event loop.
      const now = this.clock.now();
      for (let n = 0; n < leases.length; n++) {
        const lease = leases[n]!;
        if (now >= lease.trustedUntil) lease.endTrust();
        if (lease.state === 'lost') return void this.takeAnew(call, leases, lease).then(served, refuse);
      }
      const { ticket, reentered, options, since, number } = call;
      this.shutdown.holds += 1;
      const hold = new Hold(this, leases, ticket ? leases[0]!.options : options, number, reentered);
      if (this.announcer.events.observed) this.announcer.began(ticket ? 'adopted' : 'granted', hold, hold.startedAt - since);
      if (fn) runInHold(hold, fn, resolve, reject);
      else resolve(hold as T);
    };
    // Resolved with the rejection, and not rejected with its reason: so the stack of the error shows the caller.
    const refuse = (reason: unknown): void => resolve(this.refuse(call, reason));
    void this.take(call, call.since).then(served, refuse);
  }

  /**
   * Resolves with the leases of the call's locks. Rejects with the reason why a lock could not be had. A call inside a hold of its lock
   * re-enters that hold, and every other one waits in the queue of its key. `now` is the present instant.
   */
  take(call: Call, now: number): Promise<readonly StoreLease[]> {
    if (call.keys.length > 1) return takeAll(call, this);
    if (call.insideHold && !call.ticket && this.context.find(call.key)) return this.reenter(call);
    const refusal = this.shutdown.serves === 'all' ? undefined : this.shutdown.refusal(call.key, call.insideHold);
    // It is refused in the next turn, for the reason that Call.rejectNextTurn gives.
    if (refusal) return new Promise((_, reject) => this.clock.nextTurn(() => reject(refusal)));
    return call.waitIn(this.queues.queueFor(call), now);
  }

  /**
   * A lock was lost after the call got it, and no work has begun under it: the call gives everything back and asks anew. A call that brought
   * a ticket rejects with the loss, because a ticket is taken only once.
   */
  private async takeAnew(call: Call, leases: readonly StoreLease[], { loss }: StoreLease): Promise<readonly StoreLease[]> {
    const now = this.clock.now();
    for (const lease of leases) abandon(call, lease, now, () => {});
    if (call.ticket) throw this.shutdown.refusal(call.key, call.insideHold) ?? loss!;
    call.reentered = undefined;
    return this.take(call, now);
  }

  /** Lets a call re-enter the hold of its key that surrounds it. When that has ended before, the call asks anew. */
  private async reenter(call: Call): Promise<readonly StoreLease[]> {
    const { context } = this;
    for (let hold = context.find(call.key); hold; hold = context.find(call.key)) {
      const leases = await hold.reenter(call);
      if (leases) return leases;
    }
    call.insideHold = context.isInsideAny;
    return this.take(call, this.clock.now());
  }

  /** Emits the event of a call that got no lock, and rejects with the reason; a LockTimeoutError names the holders if the call can wait for them. */
  private async refuse(call: Call, reason: unknown): Promise<never> {
    const { waitMs, expectsBusy, signal } = call.options;
    const isCancelled = endedBy(signal, reason);
    this.announcer.refused(call, isCancelled ? undefined : reason, this.clock.now() - call.since);
    if (waitMs > 0 && !expectsBusy && !isCancelled) return this.holders.reject(call, reason);
    throw reason;
  }

  /**
   * The work under an adopted hold, which goes back to its ticket when the work fails. The caller is told the failure of the work, whatever becomes
   * of the ticket.
   */
  handingBack<T>(fn: Work<T>, { ticket }: Call, withinMs: number | undefined): Work<T> {
    return async (lease) => {
      try {
        return await fn(lease);
      } catch (error) {
        await this.tickets.handBack(lease as Hold, ticket!, withinMs).catch((reason: Error) => this.announcer.notHandedBack(lease as Hold, reason));
        throw error;
      }
    };
  }
}
