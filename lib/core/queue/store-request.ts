/**
 * One request of this process for a lock, from the line of its queue to the store and back. It asks the store, waits for a wake or for
 * the time to ask again, and asks again, until the lock is granted or refused, or no call wants it any more. By asking again in time it
 * keeps its place in the store's queue, and hears of a grant whose wake was lost.
 *
 *     asking ──▶ granted | refused | failed
 *       │ ▲
 *       ▼ │ wake, 700 ms, end of the holder's lease, pause after a failure
 *     waiting ──(cancel)──▶ the id is released in the background
 *
 * While it asks or waits it is open; granted, refused or failed for good it is answered; and a cancelled one is told of no answer any more.
 *
 * A grant is judged before it counts: with enough trust left of it work may begin; with too little it is renewed first; one whose trust
 * has ended is asked for again under the same id, or given back if the call does not wait. One that comes when its request was cancelled is
 * released. So is one that a message tells of to a process that no longer has a request of that id (a `stray` wake, queues.ts).
 */
import { Alarm } from '../lease/schedule.js';
import { Backoff } from '../port/clock.js';
import { LockStoreError } from '../port/errors.js';
import {
  asStoreError, busyError, givenUpError, outageError, ownerUpgradeError, permitsError, silenceError, slownessError, ticketError, tooManyHoldsError,
} from '../port/hold-errors.js';
import type { LastUser, StoreLease } from '../lease/store-lease.js';
import { WAKES_COUNT_FROM_MS, type AcquireAnswer, type AcquireOutcome, type AcquireRequest, type Grant, type Reply } from '../port/lock-store.js';
import type { Call } from './call.js';
import type { KeyQueue } from './key-queue.js';
import type { Queues } from './queues.js';

/** With less trust left than this, in ms, a grant would be lost if its first renewal were slow. */
export const NEARLY_OVER_MS = 500;

/** Why a request was not granted. */
export type Refusal =
  | Extract<AcquireAnswer, { kind: 'busy' | 'upgrade' | 'full' | 'permits' | 'gone' }>
  | { readonly kind: 'failed'; readonly error: LockStoreError };

/** How soon a request asks again that has a place in the store's queue, in ms. The store gives up a place for which nobody asks for 2,500 ms. */
const KEEPS_PLACE_MS = 700;

export class StoreRequest implements AcquireRequest {
  /** A holder id that was never used before. */
  readonly id = `${this.queues.process}.${(this.queues.sequence++).toString(36)}`;
  readonly key = this.asker.key;
  /** The options of the call; of a hold that was adopted, what it brought stands there. */
  options = this.asker.options;
  readonly mode = this.options.mode;
  readonly leaseMs = Math.min(this.options.leaseMs, this.options.maxHoldMs);
  readonly queue = this.options.waitMs > 0;
  readonly minHoldMs = this.options.minHoldMs;
  readonly graceMs = this.options.graceMs;
  readonly owner = this.options.owner;
  readonly permits = this.options.permits;
  readonly label = this.options.label;
  readonly minReplicas = this.options.minReplicas;
  /** The id of {@link replaced}, or of the ticket that the call brings. */
  replaces = this.replaced?.id;
  readonly takesOver?: 'ticket';
  readonly ticketUntil?: number;
  readonly ticketId?: string;
  /** After when the store must not act on the request. It is set anew whenever the request is sent, and 0 as long as the store cannot know it. */
  notAfter = 0;
  /** When the request was sent last. */
  askedAt = 0;
  /** True if the store has refused the request, put it into its queue, or failed: the lock was not granted at once. */
  wasDelayed = false;
  /** Why the store did not respond; undefined when the last try was answered. */
  lastError: LockStoreError | undefined;
  /** A request is open while it asks or waits. It is cancelled when its caller gives up. */
  private state: 'open' | 'answered' | 'cancelled' = 'open';
  /** True if an answer is awaited, or the request is in the line of {@link Limiter} to be sent. */
  private asking = false;
  private askingSince = 0;
  /** The latest `notAfter` of the tries that got no answer. */
  private unansweredUntil = -Infinity;
  /**
   * The local instant until which a try may still act that got no answer, or none yet: it may be on its way to the store, which ignores it
   * after its `notAfter`. -Infinity when all tries were answered.
   */
  lateUntil = -Infinity;
  /** How long the store took to answer that this request waits, in ms. The first renewal may take as long. */
  private answeredInMs = 0;
  /** True if a wake came while the store was being asked, so that it must be asked once more. */
  private mustAskAgain = false;
  /** True if a grant is being renewed before it counts. Nothing is asked meanwhile: a Redlock takes a grant back that it does not find again. */
  private isLengthening = false;
  /** The pauses between tries, if the last one has failed. */
  private backoff: Backoff | undefined;
  /** What messages told of its grant before the answer was read, for they come on another connection. The lease begins with that. */
  isContended = false;
  isForced = false;
  private readonly limiter: Limiter;
  /** When it asks again by itself; made for the first time that it does not know the outcome at once. */
  private alarm: Alarm | undefined;

  constructor(
    readonly queues: Queues,
    /** The call whose options the request carries. */
    readonly asker: Call,
    readonly fences: number,
    /** It hears of the grant or of a refusal, once, unless it cancels the request before. */
    private readonly keeper: KeyQueue,
    /** A lease of this process that the store releases in the same command; undefined once it has. */
    private replaced?: StoreLease | undefined,
    /** The last user of that lease, which learns how the release ended by the first answer or failure. Later tries release again and tell nobody. */
    private replacedUser?: LastUser | undefined,
    /** True if the permit of that lease goes to this request before those who wait. */
    readonly handsOn = false,
  ) {
    const { groupOf } = queues.watchdog;
    this.limiter = groupOf ? queues.limiterOf(groupOf(this.key)) : queues.limiter;
    if (asker.ticket) {
      this.takesOver = 'ticket';
      this.ticketUntil = asker.ticket.takenUntil;
      this.ticketId = this.replaces = asker.ticket.id;
    }
    this.lastError = this.backoff = this.alarm = undefined;
  }

  /** Ends the request, because no call wants the lock any more: it leaves the queue, and a grant on its way is given back. */
  cancel(): void {
    if (this.state !== 'open') return;
    this.end('cancelled');
    this.giveBack();
  }

  /** How long the store has been silent, in ms, if it has not answered this request at all; else 0. */
  get silentForMs(): number {
    return this.asking && !this.wasDelayed ? this.queues.clock.now() - this.askingSince : 0;
  }

  /**
   * A message told of its grant. That counts only for a request that was delayed: any other one is still on its way to the store, so the
   * message cannot be about it.
   */
  heardOfGrant(grant: Grant): void {
    if (this.state === 'open' && this.wasDelayed) this.judge(grant, this.queues.clock.now() - WAKES_COUNT_FROM_MS);
  }

  /** Notes that another process waits behind the grant that is on its way. */
  heardOfWaiter(): void {
    this.isContended = true;
  }

  /** Notes that an operator has taken the lock away that is on its way. */
  heardOfForce(): void {
    this.isForced = true;
  }

  /** Asks the store; while an answer is awaited, asks once more after that. */
  ask(now = this.queues.clock.now()): void {
    if (this.state !== 'open' || this.isLengthening) return;
    this.mustAskAgain = this.asking;
    if (this.asking) return;
    this.asking = true;
    this.askingSince = now;
    const { limiter } = this;
    // One that also gives a lock back is sent at once, because others wait for that lock.
    if (limiter.inFlight < limiter.most || this.replaced) this.send(now);
    else limiter.add(this);
  }

  /** Sends the request to the store, unless no call wants the lock any more. */
  send(now = this.queues.clock.now()): void {
    const { store, defaults } = this.queues;
    if (this.state !== 'open') return;
    this.limiter.inFlight += 1;
    this.askedAt = now;
    this.lateUntil = this.notAfter = now + defaults.commandTimeoutMs;
    store.acquire(this, this.onReply)?.then(this.onReply, (error: unknown) => this.onReply(asStoreError(error, this.key)));
  }

  /** The store calls it with its reply. It is a field, so that every try has the same function. */
  private readonly onReply = (outcome: Reply<AcquireOutcome>): void => {
    const { limiter, replacedUser } = this;
    limiter.inFlight -= 1;
    if (limiter.line.length > 0) limiter.sendNext();
    this.asking = false;
    const isUnknown = outcome instanceof LockStoreError;
    if (isUnknown) this.unansweredUntil = this.notAfter;
    else this.lateUntil = this.unansweredUntil;
    this.replacedUser = undefined;
    replacedUser?.leaseReleased(isUnknown ? 'unknown' : outcome.replacedLost ? 'lost' : 'released');
    if (this.state === 'answered') return;
    if (this.state === 'cancelled') {
      // Its release may have reached the store before it did, so it is released once more.
      if (isUnknown || outcome.kind === 'granted' || outcome.kind === 'waiting') this.giveBack();
    } else if (isUnknown) this.failed(outcome);
    else this.answered(outcome);
    if (this.mustAskAgain) this.ask();
  };

  private answered(outcome: AcquireOutcome): void {
    this.lastError = undefined;
    this.backoff = undefined;
    if (this.replaced) {
      this.queues.background.released(this.replaced);
      this.replaced = this.replaces = undefined;
    }
    switch (outcome.kind) {
      case 'granted':
        // The lease of a hold that was adopted has the terms that the hold brought.
        if (outcome.taken) {
          const { owner, permits, minHoldMs } = outcome.taken;
          this.options = { ...this.options, mode: outcome.grant.mode, owner, permits, minHoldMs };
        }
        return this.judge(outcome.grant, this.askedAt);
      case 'recovering':
        this.lastError = outcome.cause;
        return this.queue ? this.delayBy(outcome.retryInMs) : this.refused({ kind: 'failed', error: outcome.cause });
      case 'waiting':
        this.answeredInMs = this.queues.clock.now() - this.askedAt;
        return this.delayBy(Math.min(outcome.askAgainInMs ?? Infinity, KEEPS_PLACE_MS));
      case 'busy':
        return this.queue ? this.delayBy(outcome.retryInMs) : this.refused(outcome);
      default:
        return this.refused(outcome);
    }
  }

  private failed(error: LockStoreError): void {
    this.lastError = error;
    if (!error.retryable || !this.queue) {
      this.end('answered');
      this.giveBack();
      return this.keeper.requestRefused(this, { kind: 'failed', error });
    }
    this.backoff ??= new Backoff();
    this.delayBy(this.backoff.nextMs());
  }

  /** Takes the grant if enough trust is left of it, else renews it or asks again. Its trust counts from `countedFrom` or later. */
  private judge(grant: Grant, countedFrom: number): void {
    const { clock, watchdog } = this.queues;
    const now = clock.now();
    if (watchdog.isStale(this.askedAt, now, countedFrom)) {
      // The store may still have this grant. When it refuses the next try, the grant is released like that of a try without an answer.
      this.unansweredUntil = this.notAfter;
      return this.ask();
    }
    const leftMs = grant.trustedUntil - now;
    // A grant that is over can still be renewed during its grace, in which nobody else gets the lock.
    if (leftMs <= 0 && this.graceMs === 0) return this.failed(slownessError(this.key, this.leaseMs));
    // A grant to a waiter is short at first, and the watchdog does not renew a lease of fixed length.
    const isFixed = !this.options.renew && this.wasDelayed;
    // Behind a slow network, or before a busy server, trust could end before the first renewal is answered.
    if (isFixed || leftMs < Math.max(2 * this.answeredInMs, Math.min(NEARLY_OVER_MS, this.leaseMs / 2))) {
      // A call whose time is over before the renewal is answered is told of the slow store: the lock is not busy.
      if (!isFixed) this.lastError = slownessError(this.key, this.leaseMs);
      return void this.lengthen(grant);
    }
    this.end('answered');
    this.keeper.requestGranted(this, grant, now);
  }

  /** Renews a grant to its whole length before work may begin under it. */
  private async lengthen(grant: Grant): Promise<void> {
    if (this.isLengthening) return;
    this.isLengthening = true;
    const { queues: { store, clock, watchdog }, key, id, leaseMs, graceMs, minReplicas } = this;
    const sentAt = clock.now();
    const renewed = await store.renew({ key, id, leaseMs, graceMs, minReplicas });
    const now = clock.now();
    this.isLengthening = false;
    if (renewed.kind === 'unknown' && this.state === 'open') return this.failed(renewed.cause);
    if (renewed.kind !== 'renewed' || now >= renewed.trustedUntil || watchdog.isStale(sentAt, now)) return this.ask();
    if (this.state !== 'open') return;
    this.end('answered');
    this.keeper.requestGranted(this, { ...grant, trustedUntil: renewed.trustedUntil, memory: renewed.memory ?? grant.memory }, now);
  }

  private refused(refusal: Refusal): void {
    const { key, id, takesOver, unansweredUntil: lateUntil } = this;
    this.end('answered');
    // Nothing was granted: only what a try that got no answer has done, or may still do, is undone. Others may have been told of that.
    const { background, store } = this.queues;
    if (lateUntil > -Infinity) background.released({ key, id, abandoned: !takesOver, memory: store.memoryOf?.(key), lateUntil });
    this.keeper.requestRefused(this, refusal);
  }

  /** Asks again in so many ms. The queue hears that the lock was not granted at once. */
  private delayBy(pauseMs: number): void {
    const { clock, watchdog: { schedule } } = this.queues;
    schedule.set((this.alarm ??= new Alarm((now) => this.ask(now))), clock.now() + pauseMs);
    this.wasDelayed = true;
    this.keeper.requestDelayed(this);
  }

  private end(state: 'answered' | 'cancelled'): void {
    this.state = state;
    if (this.alarm) this.queues.watchdog.schedule.cancel(this.alarm);
  }

  /** Releases in the background whatever this request may have been granted, and the lease that it was to replace. */
  private giveBack(): void {
    const { key, id, leaseMs, minHoldMs, graceMs, unansweredUntil: lateUntil, replaced } = this;
    const { background, defaults: { commandTimeoutMs } } = this.queues;
    // Under a hold that was adopted work has begun, in the process that handed it off.
    if (this.notAfter > 0) background.release({ key, id, abandoned: !this.takesOver, lateUntil }, Math.max(leaseMs, minHoldMs) + graceMs + commandTimeoutMs);
    // The request that should release it as well is not sent again. While it is on its way its answer tells how that ended: a release that was
    // sent later may act before it, when the request has to be sent once more because the scripts were flushed, or the slot has moved.
    if (replaced && !this.asking) background.release(replaced, replaced.storeLengthMs + commandTimeoutMs);
  }
}

// What follows makes the error of a call that did not get its lock, from what the store answered to its request, or from its silence.

/**
 * When a wait is over and the store has not answered for this long, the error says that the store is silent and not that the
 * lock is busy, which nobody knows then. It is the length of the wait within these bounds: below the lower one the answer may
 * only be slow, and the upper one is enough for every wait.
 */
const SILENT_MS = { atLeast: 100, atMost: 500 } as const;

/** The error for an answer of the store that does not grant the lock. */
export function refusalError(refusal: Refusal, { key, ticket, options: { owner, permits, waitMs } }: Call): Error {
  switch (refusal.kind) {
    case 'failed':
      return givenUpError(key, waitMs, refusal.error);
    case 'upgrade':
      return ownerUpgradeError(key, owner);
    case 'full':
      return tooManyHoldsError(key, owner);
    case 'permits':
      return permitsError(key, permits, refusal.permits);
    case 'gone':
      return ticketError(key, ticket!, refusal);
    case 'busy':
      return busyError(key, waitMs);
  }
}

/**
 * The error of a call with waitMs 0: while the store cannot be asked a LockStoreError, because the lock may not be busy at all.
 * `isHeldHere`: whether a call of this process is known to hold the lock.
 */
export function refusedAtOnce(request: StoreRequest | undefined, { key, options: { waitMs } }: Call, isHeldHere?: boolean): Error {
  const failure = request?.lastError;
  return failure ? outageError(key, waitMs, failure) : busyError(key, waitMs, isHeldHere);
}

/** The error of a call whose waitMs is over: a LockStoreError if the store failed or was silent, because the lock may not be busy. */
export function waitedInVain(request: StoreRequest | undefined, call: Call): Error {
  const { key, ticket, options: { waitMs, minReplicas } } = call;
  // 1 ms is allowed for, because timers can fire a fraction of a millisecond early. A call with waitMs 0 has waited for nothing but the answer.
  const silentMs = waitMs === 0 ? 0 : Math.max(SILENT_MS.atLeast, Math.min(waitMs, SILENT_MS.atMost)) - 1;
  // A lock that a ticket has is busy for nobody who brings it.
  if (request && (request.silentForMs > silentMs || (ticket && !request.lastError))) return silenceError(key, waitMs, request.queues.store.server, minReplicas);
  return refusedAtOnce(request, call);
}

/** Enough requests to keep a Redis busy over a slow network, and few enough to be answered long before commandTimeoutMs is over. */
export const MAX_IN_FLIGHT = 2_000;
/**
 * As many as one command takes. In a Cluster each slot group has a line of its own, because a master that does not answer must hold up
 * no request to the others; the 256 groups together have about as many in flight as one Redis.
 */
export const MAX_IN_FLIGHT_OF_A_GROUP = 8;

/**
 * Bounds how many requests are in flight. If a crowd of requests were sent in one moment, each answer would be late, each request
 * would be sent again, and none would be answered in time. So further requests wait in a line, first come, first sent.
 */
export class Limiter {
  /**
   * How many are in flight. Each that is sent counts itself until it was answered or has failed, and calls {@link sendNext} then if others
   * wait: so a request that finds room, as most do, costs no call of the limiter.
   */
  inFlight = 0;
  line: (Pick<StoreRequest, 'send'> | undefined)[] = [];
  /** The index of the first request in the line. Removing the first element of a long array would move all others. */
  private first = 0;

  constructor(readonly most: number) {}

  /** Puts the request at the end of the line. */
  add(request: Pick<StoreRequest, 'send'>): void {
    this.line.push(request);
  }

  /** Sends the next in the line. */
  sendNext(): void {
    while (this.inFlight < this.most && this.first < this.line.length) {
      const request = this.line[this.first]!;
      this.line[this.first++] = undefined;
      request.send();
    }
    if (this.first < this.line.length) return;
    this.line = [];
    this.first = 0;
  }
}
