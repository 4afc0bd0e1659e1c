/**
 * Hands holds off, and reads tickets. The giver's trust ends before anything is sent, so that what the store answers can only be that the
 * ticket has the locks, or that nobody has them.
 *
 *     held ──▶ asking ──▶ handed off
 *               │ ▲ ▲└──▶ unknown to the store ──(it forgot the hold, and has it back)──▶ asked anew, once
 *               ▼ │ │                         └─▶ undone: the hold is lost
 *           no answer ──(until the trust would have ended)──▶ undone: the locks are released in the background
 *
 * A call that brings a ticket asks the store for each of its locks as other calls do (queue/store-request.ts).
 */
import type { StoreLease } from '../lease/store-lease.js';
import { Backoff, keptAlive, pause } from '../port/clock.js';
import { LockStoreError } from '../port/errors.js';
import { asStoreError, entangledHandOffError, foreignTicketError, handOffError, nestedHandOffError, noTicketsError } from '../port/hold-errors.js';
import type { HandOffOptions } from '../port/lock-options.js';
import type { HeldLease, RenewRequest } from '../port/lock-store.js';
import { type BroughtTicket, newSecret, type Ticket, ticketIdOf, ticketText } from '../port/ticket.js';
import { withinMsOf } from '../port/options.js';
import type { Hold } from './hold.js';
import type { LockCore } from './lock-core.js';

/** What is kept of a lease that goes to a ticket: this process has it no more, and yet has to see that the store learns of it. */
export interface HandedLease {
  readonly lease: StoreLease;
  /** True if its id stays a holder beside the ticket, because other readers of its process go on under it. */
  readonly stays: boolean;
  /** Brings the lease back, as it was when it was handed off, to a store that forgot it. */
  readonly renewal: RenewRequest;
}

/** `stays`: whether other callers of this process stay on the lease. */
export function handedLeaseOf(lease: StoreLease, now: number, stays: boolean): HandedLease {
  const { mode, grant, options, minHoldUntil, trustedUntil, memory } = lease;
  const held: HeldLease = { state: 'held', mode, grant, options, minHoldUntil, trustedUntil, memory };
  return { lease, stays, renewal: { ...lease.renewal(now, Math.floor(trustedUntil - now)), held } };
}

/** A hand-off that has begun. */
interface HandOff {
  readonly ticketId: string;
  readonly withinMs: number;
  readonly leases: readonly HandedLease[];
  /** The local instant until which the store is asked. */
  readonly until: number;
}

/** What the store says of a ticket that has the locks; undefined when it does not know one of the holds. */
type TicketTerms = Pick<Ticket, 'until' | 'memory'> | undefined;

export class Tickets {
  constructor(
    private readonly core: LockCore,
    /** The name of this process in holder ids, and that of the lock module. */
    private readonly process: string,
    private readonly instance: string,
  ) {}

  /** Ends the hold and resolves with the ticket: a new one, or that from which the hold was adopted. @throws LockUsageError, LockLostError, LockStoreError */
  async handOff(hold: Hold, given: HandOffOptions | undefined, from?: Ticket): Promise<string> {
    const { core: { store, clock, defaults, queues: { background } }, instance } = this;
    const { key, keys, options } = hold;
    const { ticketHome: home } = store;
    if (home === undefined) throw noTicketsError(key);
    const withinMs = withinMsOf(given, options.leaseMs, defaults, key);
    if (hold.reentersOthers) throw nestedHandOffError(key);
    if (hold.nestedCalls > 0) throw entangledHandOffError(key);
    hold.assertHeld();
    const { process, secret } = from ?? { process: this.process, secret: newSecret() };
    const now = clock.now();
    const leases = hold.giveToTicket(now);
    const until = Math.min(now + Math.max(options.waitMs, defaults.commandTimeoutMs), ...leases.map(({ lease }) => lease.trustedUntil));
    const handOff = { ticketId: ticketIdOf({ process, secret }), withinMs, leases, until };
    const outcome = await keptAlive(clock, () => this.outcomeOf(handOff));
    if (outcome === undefined || outcome instanceof LockStoreError) {
      this.undo(handOff);
      for (const _ of leases) hold.leaseReleased(outcome ? 'unknown' : 'lost');
      throw outcome ? handOffError(key, outcome) : hold.lossNow()!;
    }
    for (const { lease: { key: lock, id, lateUntil }, stays } of leases) {
      if (!stays) background.releaseLate({ key: lock, id, abandoned: true, lateUntil, askedAt: now });
      hold.leaseReleased('released');
    }
    return ticketText({ home, instance, keys, process, secret, ...outcome });
  }

  /** Gives an adopted hold back to its ticket, which can be adopted once more. @throws as {@link handOff} does */
  async handBack(hold: Hold, ticket: Ticket, withinMs: number | undefined): Promise<void> {
    const { clock } = this.core;
    // A copy of the adoption that got no answer would adopt the ticket for this hold, which has ended then.
    const lateMs = Math.max(...hold.leases.map(({ lateUntil }) => lateUntil)) - clock.now();
    if (lateMs >= 0) await pause(clock, lateMs + 1);
    await this.handOff(hold, { withinMs }, ticket);
  }

  /** What a call brings that is to adopt the ticket here. @throws LockUsageError when its locks are not in this store */
  broughtHere(ticket: Ticket, handsBack: boolean): BroughtTicket {
    const { core: { store }, instance } = this;
    const { keys, until } = ticket;
    const { ticketHome: home, capabilities: { groupOf } } = store;
    if (home === undefined) throw noTicketsError(keys[0]!);
    if (ticket.home !== home || ticket.instance !== instance) throw foreignTicketError(ticket, { home, instance });
    const hasManyEnds = handsBack || (keys.length > 1 && groupOf !== undefined);
    return { ...ticket, id: ticketIdOf(ticket), takenUntil: hasManyEnds ? Number.MAX_SAFE_INTEGER : until };
  }

  /** Releases the locks of a ticket that is of no use any more. */
  giveBack({ id, keys }: BroughtTicket): void {
    const { defaults: { maxLeaseMs }, queues: { background } } = this.core;
    for (const key of keys) background.release({ key, id }, maxLeaseMs);
  }

  /** A store that does not know one of the holds may have forgotten it. Once the store has all holds again, the hand-off is asked once more. */
  private async outcomeOf(handOff: HandOff): Promise<TicketTerms | LockStoreError> {
    const outcome = await this.untilAnswered(handOff);
    return outcome === undefined && (await this.hasThemAgain(handOff)) ? this.untilAnswered(handOff) : outcome;
  }

  private async untilAnswered(handOff: HandOff): Promise<TicketTerms | LockStoreError> {
    const { clock, defaults } = this.core;
    const { leases, until } = handOff;
    const backoff = new Backoff();
    for (;;) {
      const notAfter = clock.now() + defaults.commandTimeoutMs;
      const outcome = await this.ask(handOff, notAfter).catch((reason: unknown) => asStoreError(reason, leases[0]!.lease.key));
      if (!(outcome instanceof LockStoreError)) return outcome;
      // The network may still deliver a copy of this try. It does nothing to holds that have left their ids. Beside a hold that stays it
      // would make the ticket anew when that has been adopted, and others could adopt it too: so there the next try comes after it.
      const lateUntil = leases.some(({ stays }) => stays) ? notAfter : -Infinity;
      const retryAt = Math.max(clock.now() + backoff.nextMs(), lateUntil + 1);
      if (!outcome.retryable || retryAt >= until) return outcome;
      await pause(clock, retryAt - clock.now());
    }
  }

  /** Puts the ticket into the place of the holds, one after another. The ticket lasts as long as the first of its leases to end. */
  private async ask({ ticketId, withinMs, leases }: HandOff, notAfter: number): Promise<TicketTerms> {
    let terms: TicketTerms;
    for (const { lease: { key, id }, stays } of leases) {
      const outcome = await this.core.store.acquire({
        key, id: ticketId, replaces: id, takesOver: stays ? 'beside' : 'hold', leaseMs: withinMs, notAfter,
        mode: 'write', queue: false, fences: 1, minHoldMs: 0, minReplicas: 0,
      });
      if (outcome.kind !== 'granted') return undefined;
      const { end } = outcome.taken!;
      terms = terms ? { ...terms, until: Math.min(terms.until, end) } : { until: end, memory: outcome.grant.memory };
    }
    return terms;
  }

  /** Brings the leases back to a store that forgot them. Whether it has all of them. */
  private async hasThemAgain({ leases, until }: HandOff): Promise<boolean> {
    const { store, clock } = this.core;
    if (!store.onDoubt || clock.now() >= until) return false;
    const outcomes = await Promise.all(leases.map(({ renewal }) => store.renew(renewal)));
    return outcomes.every(({ kind }) => kind === 'renewed');
  }

  /** Releases the holds and the ticket: the hold has ended, and nobody knows the ticket. So nobody has what an unanswered request may still bring, either. */
  private undo({ ticketId, withinMs, leases }: HandOff): void {
    const { clock, defaults, queues: { background } } = this.core;
    const lateUntil = clock.now() + defaults.commandTimeoutMs;
    for (const { lease: { key, id, storeLengthMs }, stays } of leases) {
      if (!stays) background.release({ key, id, lateUntil }, storeLengthMs + defaults.commandTimeoutMs);
      background.release({ key, id: ticketId, lateUntil }, withinMs + defaults.commandTimeoutMs);
    }
  }
}
