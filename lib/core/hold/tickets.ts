/**
 * Hands holds off, and reads tickets. The giver's trust ends before anything is sent. What the store answers can only be that the ticket
 * has the lock, or that nobody has it; without an answer it is asked again under the same ticket, while the lease can still be there.
 */
import { type BackgroundRelease, requestPauses } from '../lease/background-release.js';
import { delay, keptAlive, type Clock } from '../port/clock.js';
import { LockStoreError } from '../port/errors.js';
import { asStoreError } from '../port/hold-errors.js';
import type { HandOffOptions, ResolvedDefaults } from '../port/lock-options.js';
import type { LockStore } from '../port/lock-store.js';
import { newSecret, readTicket, ticketIdOf, ticketText, type Ticket } from '../port/ticket.js';
import { entangledHandOffError, foreignTicketError, handOffError, nestedHandOffError, noTicketsError } from './ticket-errors.js';
import { withinMsOf } from '../port/options.js';
import type { HandOffOutcome, HandOffRequest, TicketStore } from '../port/ticket-store.js';
import type { HandedLease } from './handed-lease.js';
import type { Hold } from './hold.js';

interface TicketsParts {
  readonly store: LockStore;
  readonly clock: Clock;
  readonly background: BackgroundRelease;
  readonly defaults: ResolvedDefaults;
  /** The name of this process in holder ids, and that of the lock module. */
  readonly process: string;
  readonly instance: string;
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
  constructor(private readonly parts: TicketsParts) {}

  /** Ends the hold and resolves with the ticket: a new one, or that from which the hold was adopted. @throws LockUsageError, LockLostError, LockStoreError */
  async handOff(hold: Hold, given: HandOffOptions | undefined, from?: Ticket): Promise<string> {
    const { store, clock, background, defaults, instance } = this.parts;
    const { key, keys, options } = hold;
    const { tickets } = store;
    if (!tickets) throw noTicketsError(key);
    const withinMs = withinMsOf(given, options.leaseMs, defaults, key);
    if (hold.parts.some(({ isNested }) => isNested)) throw nestedHandOffError(key);
    if (hold.hasNestedCalls) throw entangledHandOffError(key);
    hold.assertHeld();
    const { process, secret } = from ?? { process: this.parts.process, secret: newSecret() };
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
    const { clock } = this.parts;
    // A copy of the adoption that got no answer would adopt the ticket for this hold, which has ended then.
    const lateMs = Math.max(...hold.parts.map(({ lease }) => lease.lateUntil)) - clock.now();
    if (lateMs >= 0) await delay(clock, lateMs + 1);
    await this.handOff(hold, withinMs === undefined ? undefined : { withinMs }, ticket);
  }

  /** Reads a ticket that is to be adopted here. @throws LockUsageError when it is damaged, or its locks are not in this store */
  read(text: string): Ticket {
    const ticket = readTicket(text);
    const { store, instance } = this.parts;
    const [key] = ticket.keys as [string];
    if (!store.tickets) throw noTicketsError(key);
    const { home } = store.tickets;
    if (ticket.home !== home || ticket.instance !== instance) throw foreignTicketError(ticket, { home, instance });
    return ticket;
  }

  private async untilAnswered(tickets: TicketStore, handOff: HandOff, key: string): Promise<HandOffOutcome | LockStoreError> {
    const { clock, defaults } = this.parts;
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
    const { store, clock } = this.parts;
    if (!store.onDoubt || clock.now() >= until) return false;
    const outcomes = await store.renew(leases.map(({ renewal }) => renewal));
    return outcomes.every(({ kind }) => kind === 'renewed');
  }

  /** Frees the locks: nobody knows the ticket, and the hold has ended. */
  private giveBack({ ticketId, withinMs }: UntimedHandOff, leases: readonly HandedLease[]): void {
    const { background, clock, defaults } = this.parts;
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
