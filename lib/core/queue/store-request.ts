/**
 * One request of this process to the store and what follows from it: ask, wait for a wake or a bound, ask again; until the
 * lock is granted, refused or nobody wants it any more.
 *
 *     asking ──▶ granted | refused | failed
 *       │ ▲
 *       ▼ │ wake, end of the holder's lease, store came back
 *     waiting ──(cancel)──▶ the id is released in the background
 *       └─────(the store lost the place)──▶ gone: the queue of the key makes a new request
 */
import { Backoff } from '../lease/backoff.js';
import { Waiter, type Heartbeats } from '../lease/heartbeats.js';
import { Alarm } from '../lease/schedule.js';
import type { StoreLease } from '../lease/store-lease.js';
import { LockStoreError } from '../port/errors.js';
import { asStoreError, slownessError } from '../port/hold-errors.js';
import type { LockMode } from '../port/lock-mode.js';
import type { AcquireOutcome, AcquireRequest, Grant, HeartbeatOutcome } from '../port/lock-store.js';
import type { Caller } from './caller.js';
import { lengthened, verdictOn } from './grant-verdict.js';
import type { ReplacedLease } from './replaced-lease.js';
import type { Answer, RequestListener, RequestParts } from './request-parts.js';
import type { Sender } from './traffic.js';

const FIRST_RETRY_MS = 20;
/** What is waited for is often a connection, which is tried anew as often: a caller is served soon after it is there. */
const LONGEST_RETRY_MS = 200;
/** A grant that was pushed is counted from an answer that may be so old. */
const PUSH_COUNTS_FROM_MS = 10_000;

export class StoreRequest extends Waiter implements AcquireRequest, Sender {
  readonly key: string;
  readonly mode: LockMode;
  readonly leaseMs: number;
  readonly queue: boolean;
  readonly minHoldMs: number;
  readonly owner: string | undefined;
  readonly label: string | undefined;
  readonly minReplicas: number;
  replaces: string | undefined;
  /** Both are set anew whenever it is sent. */
  askedAt = 0;
  notAfter = 0;
  /** The store has put us into its queue, or told us to come again. */
  wasRefused = false;
  private state: 'open' | 'answered' | 'cancelled' = 'open';
  /** Why the store could not be asked, if the last try failed. */
  lastError: LockStoreError | undefined;
  /** Also while it stands in line to be sent. */
  private asking = false;
  private askingSince = 0;
  /** The last `notAfter` of the tries that were not answered. */
  private unansweredUntil = -Infinity;
  /** The store may know of it. */
  private sent = false;
  /** The store has told that it knows of us as a waiter, in its queue or without one: wakes count from then on. */
  private isKnownToWait = false;
  /** A wake came while the store was being asked: ask once more. */
  private askAgain = false;
  /** Since the last answer, if a try has failed since. */
  private backoff: Backoff | undefined;
  private bound: Alarm | undefined;

  constructor(
    private readonly parts: RequestParts,
    readonly id: string,
    /** The caller whose options the request carries. */
    readonly asker: Caller<StoreLease>,
    /** How many callers had come when the request was made. */
    readonly arrivals: number,
    readonly fences: number,
    private readonly listener: RequestListener,
    private replaced: ReplacedLease | undefined,
  ) {
    super();
    const { wish, options } = asker;
    this.key = wish.key;
    this.mode = options.mode;
    this.leaseMs = Math.min(options.leaseMs, options.maxHoldMs);
    this.queue = options.waitMs > 0;
    this.minHoldMs = options.minHoldMs;
    this.owner = options.owner;
    this.label = options.label;
    this.minReplicas = options.minReplicas;
    this.replaces = replaced?.id;
  }

  /**
   * Local instant until which a try that was not answered may still act: it may lie somewhere on its way, and the store does
   * nothing for it after its `notAfter`. -Infinity when all were answered.
   */
  get lateUntil(): number {
    return this.asking ? Math.max(this.unansweredUntil, this.notAfter) : this.unansweredUntil;
  }

  get urgent(): boolean {
    return this.replaced !== undefined;
  }

  /** Asks, or asks once more when the answer that is awaited now is here. */
  ask(now = this.parts.clock.now()): void {
    if (this.state !== 'open') return;
    this.askAgain = this.asking;
    if (this.asking) return;
    this.asking = true;
    this.askingSince = now;
    this.parts.traffic.enter(this, now);
  }

  /** Nobody wants the lock any more: leave the queue, or give back what may just be granted. */
  cancel(): void {
    if (this.state !== 'open') return;
    this.end('cancelled');
    this.giveBack();
  }

  /** How long the store has not answered a request that it never answered before; 0 when it has. */
  get silentForMs(): number {
    return this.asking && !this.wasRefused ? this.parts.clock.now() - this.askingSince : 0;
  }

  /** The store says that it was granted, or that it should ask. A hint: it means nothing to a request that the store does not know to wait. */
  wake(grant: Grant | undefined): void {
    if (this.state !== 'open' || !this.isKnownToWait) return;
    if (grant) this.judge(grant, this.parts.clock.now() - PUSH_COUNTS_FROM_MS);
    else this.ask();
  }

  heartbeatAnswered(outcome: HeartbeatOutcome): void {
    if (this.state !== 'open') return;
    // A request that is on its way, or has failed, may give the grant back just now: then the store has to be asked what is left.
    if (outcome.kind === 'granted') return this.wake(this.asking || this.lastError ? undefined : outcome.grant);
    if (outcome.kind === 'unknown') {
      this.lastError = outcome.cause;
      return;
    }
    this.lastError = undefined;
    if (outcome.kind === 'waiting') return this.askIn(outcome.askAgainInMs);
    // The place is gone. Whatever still happens to this id must not be taken for the next request.
    this.end('cancelled');
    this.releaseLate();
    this.listener.requestAnswered({ kind: 'gone' });
  }

  send(now = this.parts.clock.now()): boolean {
    const { store, commandTimeoutMs } = this.parts;
    if (this.state !== 'open') return false;
    this.sent = true;
    this.askedAt = now;
    this.notAfter = now + commandTimeoutMs;
    store.acquire(this).then(
      (outcome) => this.storeAnswered(outcome),
      (error: unknown) => this.storeAnswered(asStoreError(error, this.key)),
    );
    return true;
  }

  protected get heartbeats(): Heartbeats {
    return this.parts.heartbeats;
  }

  private storeAnswered(outcome: AcquireOutcome | LockStoreError): void {
    this.parts.traffic.left();
    this.asking = false;
    const isUnknown = outcome instanceof LockStoreError;
    if (isUnknown) this.unansweredUntil = this.notAfter;
    this.replaced?.tell(isUnknown ? 'unknown' : outcome.replacedLost ? 'lost' : 'released');
    if (this.state === 'answered') return;
    if (this.state === 'open') this.heard(outcome);
    // Nobody wants it any more. The release may have overtaken this request: it is sent once more.
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
        return this.answer({ kind: outcome.kind });
      case 'waiting':
        this.heartbeats.watch(this);
        return this.wait(outcome.askAgainInMs);
      case 'busy':
        if (!this.queue) return this.answer({ kind: 'busy' });
        return this.wait(outcome.retryInMs);
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
    this.backoff ??= new Backoff(FIRST_RETRY_MS, LONGEST_RETRY_MS);
    this.askIn(this.backoff.nextMs());
    this.delay();
  }

  /** Whether a grant is good enough to begin with. Its trust was counted from an instant not before `countedFrom`. */
  private judge(grant: Grant, countedFrom: number): void {
    const now = this.parts.clock.now();
    if (this.parts.watchdog.sleep.happenedSince(countedFrom, now)) return this.ask();
    switch (verdictOn(grant, now, this.leaseMs, !this.asker.options.renew && this.wasRefused)) {
      case 'over':
        return this.failed(slownessError(this.key, this.leaseMs));
      case 'short':
        return void this.lengthen(grant);
      case 'good':
        return this.answer({ kind: 'granted', grant, at: now });
    }
  }

  private async lengthen(grant: Grant): Promise<void> {
    const longer = await lengthened(grant, this, this.parts);
    if (this.state !== 'open') return;
    if (longer) this.answer({ kind: 'granted', ...longer });
    else this.ask();
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
    if (this.isKnownToWait) this.heartbeats.forget(this);
    if (this.bound) this.askIn(undefined);
  }

  private giveBack(): void {
    const { key, id, leaseMs, minHoldMs, unansweredUntil: lateUntil, replaced } = this;
    const { background, commandTimeoutMs } = this.parts;
    if (this.sent) background.release({ key, id, abandoned: true, lateUntil }, Math.max(leaseMs, minHoldMs) + commandTimeoutMs);
    replaced?.giveBack(background, leaseMs + commandTimeoutMs);
  }

  private releaseLate(): void {
    const { key, id, unansweredUntil: lateUntil } = this;
    this.parts.background.releaseLate({ key, id, abandoned: true, lateUntil });
  }
}
