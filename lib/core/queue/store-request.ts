/**
 * One request of this process for a lock. It asks the store, waits for a wake or for the time to ask again, and asks again, until
 * the lock is granted or refused, or no caller wants it any more.
 *
 *     asking ──▶ granted | refused | failed
 *       │ ▲
 *       ▼ │ wake, end of the holder's lease, pause after a failure
 *     waiting ──(cancel)──▶ the id is released in the background
 *       └─────(the store no longer has its place)──▶ gone: the queue of the key makes a new request
 */
import { requestPauses, type Backoff } from '../lease/backoff.js';
import type { Pulse, Waiter } from '../lease/heartbeats.js';
import { Alarm } from '../lease/appointment.js';
import type { StoreLease } from '../lease/store-lease.js';
import { LockStoreError } from '../port/errors.js';
import { asStoreError, slownessError } from '../port/hold-errors.js';
import { WAKES_COUNT_FROM_MS, type AcquireOutcome, type Grant, type HeartbeatOutcome } from '../port/lock-store.js';
import type { Caller } from './caller.js';
import { lengthened, verdictOn } from './grant-verdict.js';
import type { ReplacedLease } from './replaced-lease.js';
import { RequestFields } from './request-fields.js';
import type { Answer, RequestListener, RequestParts } from './request-parts.js';
import type { OutgoingRequest } from './traffic.js';

export class StoreRequest extends RequestFields implements OutgoingRequest, Waiter {
  /** When the request was sent last. */
  askedAt = 0;
  /** Whether the store has refused the request, put it into its queue, or failed: the lock was not granted at once. */
  wasRefused = false;
  private state: 'open' | 'answered' | 'cancelled' = 'open';
  /** Why the store did not respond; undefined when the last try was answered. */
  lastError: LockStoreError | undefined;
  /** Whether an answer is awaited, or the request is in the line of {@link Traffic} to be sent. */
  private asking = false;
  private askingSince = 0;
  /** How often the data of the store had been replaced when the request was sent last. */
  private replacements = 0;
  /** The latest `notAfter` of the tries that got no answer. */
  private unansweredUntil = -Infinity;
  /** Whether the request was ever sent, so that the store may know it. */
  private sent = false;
  /** Whether the store has answered that this request waits, in its queue or without one. Wakes are followed from then on. */
  private isKnownToWait = false;
  /** Whether a wake came while the store was being asked, so that it must be asked once more. */
  private askAgain = false;
  /** Whether a grant is being renewed before it counts. Nothing is asked meanwhile: a Redlock takes a grant back that it does not find again. */
  private isLengthening = false;
  /** The pauses between tries, if one has failed since the last answer. */
  private backoff: Backoff | undefined;
  private bound: Alarm | undefined;
  /** Its heartbeats, once it has a place in the store's queue. */
  private pulse: Pulse | undefined;

  constructor(
    private readonly parts: RequestParts,
    asker: Caller<StoreLease>,
    fences: number,
    private readonly listener: RequestListener,
    replaced: ReplacedLease | undefined,
  ) {
    super(parts.nextId(), asker, fences, replaced);
  }

  /**
   * The local instant until which a try that got no answer may still act: it may be on its way to the store, which ignores it after
   * its `notAfter`. -Infinity when all tries were answered.
   */
  get lateUntil(): number {
    return this.asking ? Math.max(this.unansweredUntil, this.notAfter) : this.unansweredUntil;
  }

  /** What is asked, as messages name it. */
  get server(): string | undefined {
    return this.parts.store.server;
  }

  get urgent(): boolean {
    return this.replaced !== undefined;
  }

  /** Asks the store; while an answer is awaited, asks once more after that. */
  ask(now = this.parts.clock.now()): void {
    if (this.state !== 'open' || this.isLengthening) return;
    this.askAgain = this.asking;
    if (this.asking) return;
    this.asking = true;
    this.askingSince = now;
    this.parts.traffic.join(this, now);
  }

  /** Ends the request, because no caller wants the lock any more: it leaves the queue, and a grant on its way is given back. */
  cancel(): void {
    if (this.state !== 'open') return;
    this.end('cancelled');
    this.giveBack();
  }

  /** How long the store has been silent, in ms, if it has not answered this request at all; else 0. */
  get silentForMs(): number {
    return this.asking && !this.wasRefused ? this.parts.clock.now() - this.askingSince : 0;
  }

  /** Follows a wake: the lock was granted, or the request should ask again. A request that the store has not made wait ignores it. */
  wake(grant?: Grant): void {
    if (this.state !== 'open' || !this.isKnownToWait) return;
    if (grant) this.judge(grant, this.parts.clock.now() - WAKES_COUNT_FROM_MS);
    else this.ask();
  }

  heartbeatAnswered(outcome: HeartbeatOutcome): void {
    if (this.state !== 'open') return;
    // While a try is open or has failed, its release may be giving this grant back. So the store is asked what is left of it.
    if (outcome.kind === 'granted') return this.wake(this.asking || this.lastError || this.backoff ? undefined : outcome.grant);
    if (outcome.kind === 'unknown') {
      this.lastError = outcome.cause;
      return;
    }
    this.lastError = undefined;
    // After a failed try the request is sent again although it still waits: that try may have changed what the store knows of the grant's
    // terms, such as the replicas that must have it.
    if (outcome.kind === 'waiting') return this.backoff ? undefined : this.askIn(outcome.askAgainInMs);
    // The store no longer has the place. The next request gets a new id, so that late answers to this one cannot be taken for its.
    this.end('cancelled');
    this.releaseLate();
    this.listener.requestAnswered({ kind: 'gone' });
  }

  /** Sends the request to the store. False when no caller wants the lock any more. */
  send(now = this.parts.clock.now()): boolean {
    const { store, watchdog, commandTimeoutMs } = this.parts;
    if (this.state !== 'open') return false;
    this.sent = true;
    this.askedAt = now;
    this.notAfter = now + commandTimeoutMs;
    this.replacements = watchdog.replacements;
    store.acquire(this).then(
      (outcome) => this.storeAnswered(outcome),
      (error: unknown) => this.storeAnswered(asStoreError(error, this.key)),
    );
    return true;
  }

  private storeAnswered(outcome: AcquireOutcome | LockStoreError): void {
    this.parts.traffic.left();
    this.asking = false;
    const isUnknown = outcome instanceof LockStoreError;
    if (isUnknown) this.unansweredUntil = this.notAfter;
    this.replaced?.tell(isUnknown ? 'unknown' : outcome.replacedLost ? 'lost' : 'released');
    if (this.state === 'answered') return;
    if (this.state === 'open') this.heard(outcome);
    // The request was cancelled meanwhile, and its release may have reached the store before it did: so it is released once more.
    else if (isUnknown || outcome.kind === 'granted' || outcome.kind === 'waiting') this.giveBack();
    if (this.askAgain) this.ask();
  }

  private heard(outcome: AcquireOutcome | LockStoreError): void {
    if (outcome instanceof LockStoreError) return this.failed(outcome);
    this.lastError = undefined;
    this.backoff = undefined;
    this.replaced?.released(this.parts.background);
    this.replaced = this.replaces = undefined;
    switch (outcome.kind) {
      case 'granted':
        return this.judge(outcome.grant, this.askedAt);
      case 'upgrade':
      case 'full':
      case 'permits':
        return this.answer(outcome);
      case 'recovering':
        this.lastError = outcome.cause;
        return this.queue ? this.wait(outcome.retryInMs) : this.answer({ kind: 'failed', error: outcome.cause });
      case 'waiting':
        this.pulse = this.parts.heartbeats.start(this, this.pulse);
        return this.wait(outcome.askAgainInMs);
      case 'busy':
        return this.queue ? this.wait(outcome.retryInMs) : this.answer(outcome);
    }
  }

  private wait(askAgainInMs: number | undefined): void {
    this.isKnownToWait = true;
    this.askIn(askAgainInMs);
    this.delay();
  }

  private failed(error: LockStoreError): void {
    this.lastError = error;
    if (!error.retryable || !this.queue) {
      this.giveBack();
      return this.answer({ kind: 'failed', error });
    }
    this.backoff ??= requestPauses();
    this.askIn(this.backoff.nextMs());
    this.delay();
  }

  /** Takes the grant if enough trust is left of it, else renews it or asks again. Its trust counts from `countedFrom` or later. */
  private judge(grant: Grant, countedFrom: number): void {
    const { clock, watchdog } = this.parts;
    const now = clock.now();
    if (watchdog.isOutdated(countedFrom, this.replacements, now)) return this.ask();
    const isFirstOfFixed = !this.options.renew && this.wasRefused;
    switch (verdictOn(grant, now, this.leaseMs, isFirstOfFixed)) {
      case 'over':
        return this.failed(slownessError(this.key, this.leaseMs));
      case 'short':
        // A caller whose time is over before the renewal is answered is told of the slow store: the lock is not busy.
        if (!isFirstOfFixed) this.lastError = slownessError(this.key, this.leaseMs);
        return void this.lengthen(grant);
      case 'good':
        return this.answer({ kind: 'granted', grant, at: now });
    }
  }

  private async lengthen(grant: Grant): Promise<void> {
    if (this.isLengthening) return;
    this.isLengthening = true;
    const longer = await lengthened(grant, this, this.parts);
    this.isLengthening = false;
    if (!longer) this.ask();
    else if (this.state === 'open') this.answer({ kind: 'granted', ...longer });
  }

  private answer(answer: Answer): void {
    this.end('answered');
    if (answer.kind !== 'granted') this.releaseLate();
    this.listener.requestAnswered(answer);
  }

  private delay(): void {
    this.wasRefused = true;
    this.listener.requestDelayed();
  }

  private askIn(delayMs: number | undefined): void {
    const { watchdog, clock } = this.parts;
    if (delayMs !== undefined) watchdog.schedule.set((this.bound ??= new Alarm((now) => this.ask(now))), clock.now() + delayMs);
    else if (this.bound) watchdog.schedule.cancel(this.bound);
  }

  private end(state: 'answered' | 'cancelled'): void {
    this.state = state;
    if (this.pulse) this.parts.heartbeats.stop(this.pulse);
    if (this.bound) this.askIn(undefined);
  }

  private giveBack(): void {
    const { key, id, leaseMs, minHoldMs, graceMs, unansweredUntil: lateUntil, replaced } = this;
    const { background, commandTimeoutMs } = this.parts;
    if (this.sent) background.release({ key, id, abandoned: true, lateUntil }, Math.max(leaseMs, minHoldMs) + graceMs + commandTimeoutMs);
    replaced?.giveBack(background, leaseMs + graceMs + commandTimeoutMs);
  }

  private releaseLate(): void {
    const { key, id, unansweredUntil: lateUntil } = this;
    this.parts.background.releaseLate({ key, id, abandoned: true, lateUntil });
  }
}
