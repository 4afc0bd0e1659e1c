/**
 * Hands holds off, and reads tickets. The giver's trust ends before anything is sent. What the store answers can only be that the ticket
 * has the lock, or that nobody has it; without an answer it is asked again under the same ticket, while the lease can still be there.
 */
import { type BackgroundRelease, requestPauses } from '../lease/background-release.js';
import { delay, keptAlive } from '../port/clock.js';
import { LockStoreError } from '../port/errors.js';
import { asStoreError, entangledHandOffError, foreignTicketError, forgottenTicketError, givenUpError, handOffError, lateTicketError, nestedHandOffError, noTicketsError, outageError, silenceError, slownessError, usedTicketError } from '../port/hold-errors.js';
import type { HandOffOptions } from '../port/lock-options.js';
import type { HeldLease, HolderRef, RenewRequest } from '../port/lock-store.js';
import { type AdoptedHold, type AdoptOutcome, type HandedHold, type HandOffOutcome, type HandOffRequest, newSecret, readTicket, type Ticket, ticketIdOf, type TicketStore, ticketText } from '../port/ticket.js';
import { withinMsOf } from '../port/options.js';
import type { Hold, HoldHost } from './hold.js';
import type { ShutdownGate } from './shutdown-gate.js';
import { Alarm } from '../lease/schedule.js';
import type { StoreLease } from '../lease/store-lease.js';
import { type AbortListener, offAbort, onAbort, reasonOf } from '../queue/abort-signals.js';
import { ANSWER_WITHIN_MS, type Call } from '../queue/call.js';
import type { LocalQueue } from '../queue/local-queue.js';

/** What is kept of a lease that goes to a ticket: this process has it no more, and yet has to see that the store learns of it. */
export interface HandedLease extends HandedHold {
  /** Brings the lease back, as it was when it was handed off, to a store that forgot it. */
  readonly renewal: RenewRequest;
  /** Until when the store has the lease at least, unless it forgot it: a local instant. */
  readonly trustedUntil: number;
  /** Until when a request for it that got no answer may still act in the store: a local instant. */
  readonly lateUntil: number;
  /** How long the store may have it at most, in ms from the hand-off. */
  readonly storeLengthMs: number;
}

/** `stays`: whether other callers of this process stay on the lease. */
export function handedLeaseOf(lease: StoreLease, now: number, stays: boolean): HandedLease {
  const { key, id, mode, firstFence, fences, owner, permits, label, minHoldUntil, trustedUntil, memory, storeLengthMs, lateUntil } = lease;
  const held: HeldLease = { isHeld: true, isReleased: false, mode, firstFence, fences, owner, permits, label, minHoldUntil, trustedUntil, memory };
  const renewal = { ...lease.renewal(now, Math.floor(trustedUntil - now)), held };
  return { key, id, renewal, trustedUntil, storeLengthMs, lateUntil, stays };
}

/** What hand-offs and adoptions need of the lock module. */
interface TicketHost extends HoldHost {
  readonly shutdown: ShutdownGate;
}

/** Each try has a time of its own after which the store does nothing. */
type UntimedHandOff = Omit<HandOffRequest, 'notAfter'>;

/** A hand-off that has begun. */
interface HandOff {
  readonly request: UntimedHandOff;
  readonly leases: readonly HandedLease[];
  /** The local instant until which the store is asked. */
  readonly until: number;
}

export class Tickets {
  private readonly background: BackgroundRelease;

  constructor(
    readonly host: TicketHost,
    readonly queue: LocalQueue,
    /** The name of this process in holder ids, and that of the lock module. */
    private readonly process: string,
    private readonly instance: string,
  ) {
    this.background = queue.background;
  }

  /** Ends the hold and resolves with the ticket: a new one, or that from which the hold was adopted. @throws LockUsageError, LockLostError, LockStoreError */
  async handOff(hold: Hold, given: HandOffOptions | undefined, from?: Ticket): Promise<string> {
    const { host: { store, clock, defaults }, background, instance } = this;
    const { key, keys, options } = hold;
    const { tickets } = store;
    if (!tickets) throw noTicketsError(key);
    const withinMs = withinMsOf(given, options.leaseMs, defaults, key);
    if (hold.parts.some(({ isNested }) => isNested)) throw nestedHandOffError(key);
    if (hold.hasNestedCalls) throw entangledHandOffError(key);
    hold.assertHeld();
    const { process, secret } = from ?? { process: this.process, secret: newSecret() };
    const ticketId = ticketIdOf({ process, secret });
    const now = clock.now();
    const leases = hold.giveToTicket(now);
    const request = { ticketId, withinMs, holds: leases.map(({ key: lock, id, stays }) => ({ key: lock, id, stays })) };
    const until = Math.min(now + Math.max(options.waitMs, defaults.commandTimeoutMs), ...leases.map(({ trustedUntil }) => trustedUntil));
    const outcome = await keptAlive(clock, () => this.untilAnswered(tickets, { request, leases, until }, key));
    if (outcome instanceof LockStoreError) {
      this.giveBack(request, leases);
      hold.finish('unknown');
      throw handOffError(key, outcome);
    }
    if (outcome.kind === 'lost') {
      // What there is of the other locks is nobody's any more, nor is what an unanswered request brings back.
      this.giveBack(request, leases);
      hold.finish('lost');
      throw hold.lossNow()!;
    }
    for (const { key: lock, id, stays, lateUntil } of leases) if (!stays) background.releaseLate({ key: lock, id, abandoned: true, lateUntil, askedAt: now });
    hold.finish('released');
    return ticketText({ home: tickets.home, instance, keys, process, secret, until: outcome.until, memory: outcome.memory });
  }

  /** Gives an adopted hold back to its ticket, which can be adopted once more. @throws as {@link handOff} does */
  async handBack(hold: Hold, ticket: Ticket, withinMs: number | undefined): Promise<void> {
    const { clock } = this.host;
    // A copy of the adoption that got no answer would adopt the ticket for this hold, which has ended then.
    const lateMs = Math.max(...hold.parts.map(({ lease }) => lease.lateUntil)) - clock.now();
    if (lateMs >= 0) await delay(clock, lateMs + 1);
    await this.handOff(hold, withinMs === undefined ? undefined : { withinMs }, ticket);
  }

  /** Reads a ticket that is to be adopted here. @throws LockUsageError when it is damaged, or its locks are not in this store */
  read(text: string): Ticket {
    const ticket = readTicket(text);
    const { host: { store }, instance } = this;
    const [key] = ticket.keys as [string];
    if (!store.tickets) throw noTicketsError(key);
    const { home } = store.tickets;
    if (ticket.home !== home || ticket.instance !== instance) throw foreignTicketError(ticket, { home, instance });
    return ticket;
  }

  /** Resolves with the leases of the ticket's locks. Rejects with LockLostError, LockStoreError, LockClosedError, or the signal's reason. */
  adopt(ticket: Ticket, call: Call): Promise<StoreLease[]> {
    return new Promise((resolve, reject) => new Adoption(ticket, call, this, resolve, reject).begin());
  }

  private async untilAnswered(tickets: TicketStore, handOff: HandOff, key: string): Promise<HandOffOutcome | LockStoreError> {
    const { clock, defaults } = this.host;
    const { request, until } = handOff;
    const backoff = requestPauses();
    for (let wasBroughtBack = false; ; ) {
      const notAfter = clock.now() + defaults.commandTimeoutMs;
      try {
        const outcome = await tickets.handOff({ ...request, notAfter });
        if (outcome.kind === 'handedOff' || wasBroughtBack || !(await this.bringBack(handOff))) return outcome;
        wasBroughtBack = true;
      } catch (reason) {
        const error = asStoreError(reason, key);
        const retryAt = Math.max(clock.now() + backoff.nextMs(), lastCopyAt(request, notAfter) + 1);
        if (!error.retryable || retryAt >= until) return error;
        await delay(clock, retryAt - clock.now());
      }
    }
  }

  /** A store that does not know a hold may have forgotten it. Whether it has all of them again: so they can be handed off after all. */
  private async bringBack({ leases, until }: HandOff): Promise<boolean> {
    const { store, clock } = this.host;
    if (!store.onDoubt || clock.now() >= until) return false;
    const outcomes = await store.renew(leases.map(({ renewal }) => renewal));
    return outcomes.every(({ kind }) => kind === 'renewed');
  }

  /** Frees the locks: nobody knows the ticket, and the hold has ended. */
  private giveBack({ ticketId, withinMs }: UntimedHandOff, leases: readonly HandedLease[]): void {
    const { background, host: { clock, defaults } } = this;
    const lateUntil = clock.now() + defaults.commandTimeoutMs;
    for (const { key, id, stays, storeLengthMs } of leases) {
      if (!stays) background.release({ key, id, lateUntil }, storeLengthMs + defaults.commandTimeoutMs);
      background.release({ key, id: ticketId, lateUntil }, withinMs + defaults.commandTimeoutMs);
    }
  }
}

/**
 * Until when a try without an answer must not be repeated. Its copy, which the network may still deliver, does nothing to holds that
 * have left their ids. Beside a hold that stays it would make the ticket anew when that has been adopted, and others could adopt it too.
 */
function lastCopyAt({ holds }: UntimedHandOff, notAfter: number): number {
  return holds.some(({ stays }) => stays) ? notAfter : -Infinity;
}

/**
 * One adoption of a ticket. It asks the store under the same holder ids until there is an answer, or until its waitMs is over: then
 * what it may have been granted is given back in the background.
 *
 *     asking ──▶ adopted | refused (the ticket was late, used or forgotten)
 *       │ ▲
 *       ▼ │ pause after a failure, and while the store recovers
 *     waiting ──(end of waitMs, signal, shutdown)──▶ failed
 */
export class Adoption implements AbortListener {
  private readonly host: TicketHost;
  private readonly queue: LocalQueue;
  private readonly ticketId: string;
  private readonly holds: readonly HolderRef[];
  private readonly key: string;
  private readonly backoff = requestPauses();
  private readonly again = new Alarm(() => this.ask());
  private readonly patience = new Alarm(() => this.fail(this.timeOver()));
  private isOpen = true;
  private sentAt = 0;
  private notAfter = -Infinity;
  /** How often the data of the store had been replaced when it was asked last. */
  private replacements = 0;
  /** The latest `notAfter` of the tries that got no answer. */
  private unansweredUntil = -Infinity;
  private lastError: LockStoreError | undefined;

  constructor(
    private readonly ticket: Ticket,
    private readonly call: Call,
    { host, queue }: Tickets,
    private readonly resolve: (leases: StoreLease[]) => void,
    private readonly reject: (reason: unknown) => void,
  ) {
    this.host = host;
    this.queue = queue;
    this.ticketId = ticketIdOf(ticket);
    this.key = call.keys[0]!;
    this.holds = call.keys.map((key) => ({ key, id: queue.nextId() }));
  }

  begin(): void {
    const { signal, waitMs } = this.call.options;
    const { watchdog: { schedule }, shutdown } = this.host;
    schedule.waitBegins();
    schedule.set(this.patience, this.call.since + Math.max(waitMs, ANSWER_WITHIN_MS));
    shutdown.adoptions.add(this);
    if (signal) onAbort(signal, this);
    if (this.isOpen) this.ask();
  }

  /** The shutdown has begun, or its grace is over: an adoption that is refused from now on ends, and gives back what it may have been granted. */
  shutdownAdvanced(): void {
    const closed = this.refusal;
    if (closed) this.fail(closed);
  }

  /** The error of a call that is refused because of a shutdown; undefined when it is served. */
  private get refusal(): Error | undefined {
    return this.host.shutdown.refusal(this.key, this.call.insideHold);
  }

  aborted(): void {
    this.fail(reasonOf(this.call.options.signal!));
  }

  private ask(): void {
    const { store, clock, watchdog, defaults } = this.host;
    const closed = this.refusal;
    if (closed) return this.fail(closed);
    const { leaseMs, maxHoldMs, graceMs, label, minReplicas } = this.call.options;
    this.sentAt = clock.now();
    this.notAfter = this.sentAt + defaults.commandTimeoutMs;
    this.replacements = watchdog.replacements;
    const { ticketId, holds, notAfter, ticket } = this;
    const until = ticket.handsBack ? Number.MAX_SAFE_INTEGER : ticket.until;
    store.tickets!.adopt({ ticketId, until, holds, leaseMs: Math.min(leaseMs, maxHoldMs), graceMs, label, minReplicas, notAfter }).then(
      (outcome) => this.heard(outcome),
      (error: unknown) => this.failed(asStoreError(error, this.key)),
    );
  }

  private heard(outcome: AdoptOutcome): void {
    // It was given up meanwhile, and its release may have reached the store before it did: so it is released once more.
    if (!this.isOpen) return outcome.kind === 'adopted' ? this.giveBack() : undefined;
    switch (outcome.kind) {
      case 'adopted':
        return this.adopted(outcome.holds);
      case 'gone':
        // Another process adopted the first lock, so it has the ticket. This process gives back what it got, and the ticket's other locks.
        if (outcome.key !== this.key) this.giveBackWithTicket();
        return this.settle(() => this.reject(this.goneError(outcome)));
      case 'recovering':
        this.lastError = outcome.cause;
        return this.askIn(outcome.retryInMs, outcome.cause);
    }
  }

  private failed(error: LockStoreError): void {
    this.unansweredUntil = this.notAfter;
    if (!this.isOpen) return this.giveBack();
    this.lastError = error;
    if (error.retryable) this.askIn(this.backoff.nextMs(), error);
    else this.fail(givenUpError(this.key, this.call.options.waitMs, error));
  }

  private adopted(holds: readonly AdoptedHold[]): void {
    const { host: { clock, watchdog }, queue } = this;
    const now = clock.now();
    // The answer may say more than is left of the leases. The same question tells what is left.
    if (watchdog.isOutdated(this.sentAt, this.replacements, now)) return this.ask();
    if (holds.some(({ grant }) => grant.trustedUntil <= now)) return this.fail(slownessError(this.key, this.call.options.leaseMs));
    this.settle(() => {
      const leases = holds.map(({ grant, owner, permits, minHoldMs }, n) => {
        const options = { ...this.call.options, mode: grant.mode, owner, permits, minHoldMs };
        return queue.adopted.add(this.holds[n]!, this.ticketId, options, grant, now, this.unansweredUntil);
      });
      this.resolve(leases);
    });
  }

  private goneError({ key, now, memory }: Extract<AdoptOutcome, { kind: 'gone' }>): Error {
    const { until, memory: before } = this.ticket;
    if (now > until) return lateTicketError(key, now - until);
    const forgot = key === this.key && before !== undefined && memory !== undefined && memory !== before;
    return forgot ? forgottenTicketError(key) : usedTicketError(key);
  }

  /** Asks again after a pause, unless the call does not wait. */
  private askIn(pauseMs: number, error: LockStoreError): void {
    if (this.call.options.waitMs === 0) return this.fail(givenUpError(this.key, 0, error));
    this.host.watchdog.schedule.set(this.again, this.host.clock.now() + pauseMs);
  }

  private timeOver(): LockStoreError {
    const { key, lastError, call: { options: { waitMs, minReplicas } } } = this;
    return lastError ? outageError(key, waitMs, lastError) : silenceError(key, Math.max(waitMs, ANSWER_WITHIN_MS), { server: this.host.store.server, minReplicas });
  }

  private fail(reason: unknown): void {
    if (!this.isOpen) return;
    this.giveBack();
    this.settle(() => this.reject(reason));
  }

  private settle(tell: () => void): void {
    const { watchdog: { schedule }, shutdown } = this.host;
    const { signal } = this.call.options;
    this.isOpen = false;
    shutdown.adoptions.delete(this);
    schedule.cancel(this.again);
    schedule.cancel(this.patience);
    schedule.waitEnds();
    if (signal) offAbort(signal, this);
    tell();
  }

  /** Releases what may have been adopted, also by a request that is still on its way. */
  private giveBack(): void {
    for (const { key, id } of this.holds) this.release(key, id, this.unansweredUntil);
  }

  /** The same, and the ticket's locks, because the ticket is of no use any more. */
  private giveBackWithTicket(): void {
    this.giveBack();
    for (const { key } of this.holds) this.release(key, this.ticketId);
  }

  private release(key: string, id: string, lateUntil?: number): void {
    const { queue, host: { defaults } } = this;
    const { leaseMs, graceMs } = this.call.options;
    // Nothing is there to be released before the store was asked.
    if (this.notAfter !== -Infinity) queue.background.release({ key, id, lateUntil }, leaseMs + graceMs + defaults.commandTimeoutMs);
  }
}
