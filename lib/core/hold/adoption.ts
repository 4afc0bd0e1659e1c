/**
 * One adoption of a ticket. It asks the store under the same holder ids until there is an answer, or until its waitMs is over: then
 * what it may have been granted is given back in the background.
 *
 *     asking ──▶ adopted | refused (the ticket was late, used or forgotten)
 *       │ ▲
 *       ▼ │ pause after a failure, and while the store recovers
 *     waiting ──(end of waitMs, signal, shutdown)──▶ failed
 */
import { requestPauses } from '../lease/background-release.js';
import { Alarm } from '../lease/schedule.js';
import type { StoreLease } from '../lease/store-lease.js';
import type { Watchdog } from '../lease/watchdog.js';
import type { Clock } from '../port/clock.js';
import { LockStoreError } from '../port/errors.js';
import { asStoreError, givenUpError, outageError, silenceError, slownessError } from '../port/hold-errors.js';
import type { ResolvedDefaults } from '../port/lock-options.js';
import type { HolderRef } from '../port/lock-store.js';
import { ticketIdOf, type Ticket } from '../port/ticket.js';
import { forgottenTicketError, lateTicketError, usedTicketError } from './ticket-errors.js';
import type { AdoptedHold, AdoptOutcome, TicketStore } from '../port/ticket-store.js';
import { offAbort, onAbort, reasonOf, type AbortListener } from '../queue/abort-signals.js';
import { ANSWER_WITHIN_MS } from '../queue/call.js';
import type { LocalQueue } from '../queue/local-queue.js';
import type { Call } from '../queue/call.js';

interface AdoptionParts {
  readonly tickets: TicketStore;
  /** What is asked, as messages name it. */
  readonly server?: string | undefined;
  readonly clock: Clock;
  readonly watchdog: Watchdog;
  readonly queue: LocalQueue;
  readonly defaults: ResolvedDefaults;
  /** The adoptions that ask the store. The shutdown tells them that it has begun. */
  readonly open: Set<Adoption>;
  /** The error of a call that is refused because of a shutdown; undefined when it is served. */
  refusal(key: string): Error | undefined;
}

/** Resolves with the leases of the ticket's locks. Rejects with LockLostError, LockStoreError, LockClosedError, or the signal's reason. */
export function adopt(ticket: Ticket, call: Call, parts: AdoptionParts): Promise<StoreLease[]> {
  return new Promise((resolve, reject) => new Adoption(ticket, call, parts, resolve, reject).begin());
}

export class Adoption implements AbortListener {
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
    private readonly parts: AdoptionParts,
    private readonly resolve: (leases: StoreLease[]) => void,
    private readonly reject: (reason: unknown) => void,
  ) {
    this.ticketId = ticketIdOf(ticket);
    this.key = call.keys[0]!;
    this.holds = call.keys.map((key) => ({ key, id: parts.queue.nextId() }));
  }

  begin(): void {
    const { signal, waitMs } = this.call.options;
    const { schedule } = this.parts.watchdog;
    schedule.waitBegins();
    schedule.set(this.patience, this.call.since + Math.max(waitMs, ANSWER_WITHIN_MS));
    this.parts.open.add(this);
    if (signal) onAbort(signal, this);
    if (this.isOpen) this.ask();
  }

  /** The shutdown has begun, or its grace is over: an adoption that is refused from now on ends, and gives back what it may have been granted. */
  shutdownAdvanced(): void {
    const closed = this.parts.refusal(this.key);
    if (closed) this.fail(closed);
  }

  aborted(): void {
    this.fail(reasonOf(this.call.options.signal!));
  }

  private ask(): void {
    const { tickets, clock, watchdog, defaults, refusal } = this.parts;
    const closed = refusal(this.key);
    if (closed) return this.fail(closed);
    const { leaseMs, maxHoldMs, graceMs, label, minReplicas } = this.call.options;
    this.sentAt = clock.now();
    this.notAfter = this.sentAt + defaults.commandTimeoutMs;
    this.replacements = watchdog.replacements;
    const { ticketId, holds, notAfter, ticket: { until } } = this;
    tickets.adopt({ ticketId, until, holds, leaseMs: Math.min(leaseMs, maxHoldMs), graceMs, label, minReplicas, notAfter }).then(
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
    const { clock, watchdog, queue } = this.parts;
    const now = clock.now();
    // The answer may say more than is left of the leases. The same question tells what is left.
    if (watchdog.isOutdated(this.sentAt, this.replacements, now)) return this.ask();
    if (holds.some(({ grant }) => grant.trustedUntil <= now)) return this.fail(slownessError(this.key, this.call.options.leaseMs));
    this.settle(() => {
      const leases = holds.map(({ grant, owner, permits, minHoldMs }, n) => {
        const options = { ...this.call.options, mode: grant.mode, owner, permits, minHoldMs };
        return queue.adopted.add(this.holds[n]!, this.ticketId, options, grant, now);
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
    this.parts.watchdog.schedule.set(this.again, this.parts.clock.now() + pauseMs);
  }

  private timeOver(): LockStoreError {
    const { key, lastError, call: { options: { waitMs, minReplicas } } } = this;
    return lastError ? outageError(key, waitMs, lastError) : silenceError(key, Math.max(waitMs, ANSWER_WITHIN_MS), { server: this.parts.server, minReplicas });
  }

  private fail(reason: unknown): void {
    if (!this.isOpen) return;
    this.giveBack();
    this.settle(() => this.reject(reason));
  }

  private settle(tell: () => void): void {
    const { schedule } = this.parts.watchdog;
    const { signal } = this.call.options;
    this.isOpen = false;
    this.parts.open.delete(this);
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
    const { queue, defaults } = this.parts;
    const { leaseMs, graceMs } = this.call.options;
    // Nothing is there to be released before the store was asked.
    if (this.notAfter !== -Infinity) queue.background.release({ key, id, lateUntil }, leaseMs + graceMs + defaults.commandTimeoutMs);
  }
}
