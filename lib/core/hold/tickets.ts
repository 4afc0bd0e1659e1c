/**
 * Hands holds off, and reads tickets. The giver's trust ends before anything is sent. What the store answers can only be that the ticket
 * has the lock, or that nobody has it; without an answer it is asked again under the same ticket, while the lease can still be there.
 * A call that brings a ticket asks the store for each of its locks as other calls do (queue/store-request.ts).
 */
import type { StoreLease } from '../lease/store-lease.js';
import { Backoff, keptAlive, pause } from '../port/clock.js';
import { LockStoreError } from '../port/errors.js';
import { asStoreError, entangledHandOffError, foreignTicketError, handOffError, nestedHandOffError, noTicketsError } from '../port/hold-errors.js';
import type { HandOffOptions, ResolvedOptions } from '../port/lock-options.js';
import type { HeldLease, RenewRequest } from '../port/lock-store.js';
import { type BroughtTicket, newSecret, type Ticket, ticketIdOf, ticketText } from '../port/ticket.js';
import { withinMsOf } from '../port/options.js';
import type { Hold } from './hold.js';
import type { LockCalls } from './lock-calls.js';

/** What is kept of a lease that goes to a ticket: this process has it no more, and yet has to see that the store learns of it. */
export interface HandedLease {
  readonly lease: StoreLease;
  /** Whether its id stays a holder beside the ticket, because other readers of its process go on under it. */
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

/** The last instant of the ticket on the store's clock, in ms, and what the store remembers of the first lock; undefined when it does not know one of the holds. */
type HandedOff = { readonly until: number; readonly memory: string | undefined } | undefined;

export class Tickets {
  constructor(
    private readonly core: LockCalls,
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
    const outcome = await keptAlive(clock, () => this.untilAnswered(handOff, key));
    if (outcome === undefined || outcome instanceof LockStoreError) {
      this.giveBackHanded(handOff);
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
    await this.handOff(hold, withinMs === undefined ? undefined : { withinMs }, ticket);
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
  giveBack({ id, keys }: BroughtTicket, { leaseMs, graceMs }: ResolvedOptions): void {
    const { defaults, queues: { background } } = this.core;
    for (const key of keys) background.release({ key, id }, leaseMs + graceMs + defaults.commandTimeoutMs);
  }

  private async untilAnswered(handOff: HandOff, key: string): Promise<HandedOff | LockStoreError> {
    const { clock, defaults } = this.core;
    const backoff = new Backoff();
    for (let wasBroughtBack = false; ; ) {
      const notAfter = clock.now() + defaults.commandTimeoutMs;
      try {
        const outcome = await this.ask(handOff, notAfter);
        if (outcome || wasBroughtBack || !(await this.bringBack(handOff))) return outcome;
        wasBroughtBack = true;
      } catch (reason) {
        const error = asStoreError(reason, key);
        const retryAt = Math.max(clock.now() + backoff.nextMs(), lastCopyAt(handOff, notAfter) + 1);
        if (!error.retryable || retryAt >= handOff.until) return error;
        await pause(clock, retryAt - clock.now());
      }
    }
  }

  /** Puts the ticket into the place of the holds, one after another. */
  private async ask({ ticketId, withinMs, leases }: HandOff, notAfter: number): Promise<HandedOff> {
    let handedOff: HandedOff;
    for (const { lease: { key, id }, stays } of leases) {
      const takesOver = stays ? 'beside' : 'hold';
      const terms = { mode: 'write', queue: false, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;
      const outcome = await this.core.store.acquire({ ...terms, key, id: ticketId, leaseMs: withinMs, replaces: id, takesOver, notAfter });
      if (outcome.kind !== 'granted') return undefined;
      const { end } = outcome.taken!;
      handedOff = handedOff ? { ...handedOff, until: Math.min(handedOff.until, end) } : { until: end, memory: outcome.grant.memory };
    }
    return handedOff;
  }

  /** A store that does not know a hold may have forgotten it. Whether it has all of them again: so they can be handed off after all. */
  private async bringBack({ leases, until }: HandOff): Promise<boolean> {
    const { store, clock } = this.core;
    if (!store.onDoubt || clock.now() >= until) return false;
    const outcomes = await Promise.all(leases.map(({ renewal }) => store.renew(renewal)));
    return outcomes.every(({ kind }) => kind === 'renewed');
  }

  /** Releases the holds and the ticket: the hold has ended, and nobody knows the ticket. So nobody has what an unanswered request may still bring, either. */
  private giveBackHanded({ ticketId, withinMs, leases }: HandOff): void {
    const { clock, defaults, queues: { background } } = this.core;
    const lateUntil = clock.now() + defaults.commandTimeoutMs;
    for (const { lease: { key, id, storeLengthMs }, stays } of leases) {
      if (!stays) background.release({ key, id, lateUntil }, storeLengthMs + defaults.commandTimeoutMs);
      background.release({ key, id: ticketId, lateUntil }, withinMs + defaults.commandTimeoutMs);
    }
  }
}

/**
 * Until when a try without an answer must not be repeated. Its copy, which the network may still deliver, does nothing to holds that
 * have left their ids. Beside a hold that stays it would make the ticket anew when that has been adopted, and others could adopt it too.
 */
function lastCopyAt({ leases }: HandOff, notAfter: number): number {
  return leases.some(({ stays }) => stays) ? notAfter : -Infinity;
}
