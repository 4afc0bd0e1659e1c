/**
 * One question to the store and what follows from it: ask, wait for a wake or a bound, ask again; until the lock is
 * granted, refused or nobody wants it any more.
 *
 *     asking ──▶ granted | refused | failed
 *       │ ▲
 *       ▼ │ wake, end of the holder's lease, lost place, store came back
 *     waiting ──(cancel)──▶ the id is released in the background
 */
import type { Desk } from './desk.js';
import { LockStoreError } from '../port/errors.js';
import { asStoreError, outageError, silenceError, slownessError } from '../port/hold-errors.js';
import type { ReleaseOutcome } from '../port/lease.js';
import type { AcquireOutcome, Grant, HeartbeatOutcome } from '../port/lock-store.js';
import { Alarm } from '../lease/schedule.js';
import type { Sender } from './traffic.js';
import type { Want } from './want.js';
import { Waiter } from '../lease/watchdog.js';

export type Answer =
  | { readonly kind: 'granted'; readonly id: string; readonly grant: Grant }
  | { readonly kind: 'busy' }
  | { readonly kind: 'upgrade' }
  | { readonly kind: 'failed'; readonly error: LockStoreError };

const FIRST_RETRY_MS = 20;
/** What is waited for is often a connection, which is tried anew as often: a caller is served soon after it is there. */
const LONGEST_RETRY_MS = 200;
/** A grant that we heard of so late would be lost if its first renewal took its time. */
const NEARLY_OVER_MS = 500;
/** A grant that was pushed is counted from an answer that may be so old. */
const PUSH_COUNTS_FROM_MS = 10_000;
/**
 * A store that has not answered for the whole wait, or for the longer of these, is silent: that the lock is busy is more
 * than we know then. Within the shorter one silence cannot be told from a slow answer.
 */
const SILENT_MS = { atLeast: 100, atMost: 500 } as const;

export class Question extends Waiter implements Sender {
  id: string;
  /** Why the store could not be asked, if the last try failed. */
  private lastError: LockStoreError | undefined;
  /** The store has put us into its queue, or told us to come again. */
  refused = false;
  private state: 'open' | 'answered' | 'cancelled' = 'open';
  /** Also while it stands in line to be sent. */
  private asking = false;
  private askedAt = 0;
  /** The store may know of it. */
  private sent = false;
  /** A wake came while the store was being asked: ask once more. */
  private askAgain = false;
  private replaces: string | undefined;
  private retryMs = FIRST_RETRY_MS;
  private bound: Alarm | undefined;

  constructor(
    private readonly desk: Desk,
    private readonly want: Want,
    /** Told exactly once, unless the question is cancelled first. */
    private readonly answered: (answer: Answer) => void,
    /** Told each time the store could not grant. */
    private readonly delayed: (question: Question) => void,
    /** Told once what became of the lease that it replaces. */
    private replaced?: (outcome: ReleaseOutcome) => void,
  ) {
    super();
    this.id = desk.nextId();
    this.replaces = want.replaces;
    this.ask();
  }

  get key(): string {
    return this.want.key;
  }

  get urgent(): boolean {
    return this.replaces !== undefined;
  }

  /** Nobody wants the lock any more: leave the queue, or give back what may just be granted. */
  cancel(): void {
    if (this.state !== 'open') return;
    this.settle('cancelled');
    this.giveBack();
  }

  /** The error for a caller whose time ran out while the store could not be asked. */
  storeFailure(waitMs: number): LockStoreError | undefined {
    return this.lastFailure(waitMs) ?? (this.isSilent(waitMs) ? silenceError(this.key, waitMs) : undefined);
  }

  /** The same, if the store has failed already. */
  lastFailure(waitMs: number): LockStoreError | undefined {
    return this.lastError && outageError(this.key, waitMs, this.lastError);
  }

  wake(grant: Grant | undefined): void {
    if (this.state !== 'open') return;
    if (grant) this.grant(grant, this.desk.clock.now() - PUSH_COUNTS_FROM_MS);
    else this.ask();
  }

  heartbeat(outcome: HeartbeatOutcome): void {
    if (this.state !== 'open') return;
    // A request that is on its way, or has failed, may give the grant back just now: then the store has to be asked what is left.
    if (outcome.kind === 'granted') return this.wake(this.asking || this.lastError ? undefined : outcome.grant);
    if (outcome.kind === 'unknown') {
      this.lastError = outcome.cause;
      return;
    }
    this.lastError = undefined;
    if (outcome.kind === 'waiting') return this.askIn(outcome.askAgainInMs);
    this.takeNewId();
    this.ask();
  }

  /** Whether an answer for `id` still concerns us, after something was awaited. */
  private isCurrent(id: string): boolean {
    return this.state === 'open' && id === this.id;
  }

  /** Timers fire a fraction of a millisecond early at times. */
  private isSilent(waitMs: number): boolean {
    const silentMs = Math.max(SILENT_MS.atLeast, Math.min(waitMs, SILENT_MS.atMost));
    return this.asking && !this.refused && this.desk.clock.now() - this.askedAt > silentMs - 1;
  }

  private ask(): void {
    if (this.state !== 'open') return;
    this.askAgain = this.asking;
    if (this.asking) return;
    this.asking = true;
    this.askedAt = this.desk.clock.now();
    this.desk.traffic.enter(this);
  }

  send(): boolean {
    const { desk, id, want, replaces } = this;
    if (this.state !== 'open') return false;
    this.sent = true;
    const { key, mode, leaseMs, queue, fences, minHoldMs, owner, label, minReplicas } = want;
    const notAfter = desk.clock.now() + desk.commandTimeoutMs;
    desk.store.acquire({ key, id, mode, leaseMs, queue, fences, minHoldMs, owner, label, minReplicas, replaces, notAfter }).then(
      (outcome) => this.asked(id, outcome),
      (error: unknown) => this.asked(id, asStoreError(error, this.key)),
    );
    return true;
  }

  private asked(id: string, outcome: AcquireOutcome | LockStoreError): void {
    this.desk.traffic.left();
    this.asking = false;
    if (this.replaced) this.tellReplaced(outcome);
    if (this.isCurrent(id)) this.heard(outcome);
    else if (this.state === 'answered' && id === this.id) return;
    // Given up meanwhile. The release may have overtaken this request: it is sent once more.
    else if (outcome instanceof LockStoreError || outcome.kind === 'granted' || outcome.kind === 'waiting') this.giveBack(id);
    // Also after an answer to an old id: the place was lost while that one was being asked for.
    if (this.askAgain) this.ask();
  }

  private tellReplaced(outcome: AcquireOutcome | LockStoreError): void {
    const { replaced } = this;
    this.replaced = undefined;
    if (outcome instanceof LockStoreError) replaced?.('unknown');
    else replaced?.(outcome.replacedLost ? 'lost' : 'released');
  }

  private heard(outcome: AcquireOutcome | LockStoreError): void {
    if (outcome instanceof LockStoreError) return this.failed(outcome);
    this.lastError = undefined;
    this.retryMs = FIRST_RETRY_MS;
    this.replaces = undefined;
    switch (outcome.kind) {
      case 'granted':
        return this.grant(outcome.grant, this.askedAt);
      case 'upgrade':
        return this.answer({ kind: 'upgrade' });
      case 'waiting':
        this.desk.watchdog.watchWaiter(this);
        return this.wait(outcome.askAgainInMs);
      case 'busy':
        if (!this.want.queue) return this.answer({ kind: 'busy' });
        return this.wait(outcome.retryInMs);
    }
  }

  private wait(askAgainInMs: number | undefined): void {
    this.desk.waiting.set(this.id, this);
    this.askIn(askAgainInMs);
    this.refused = true;
    this.delayed(this);
  }

  private failed(error: LockStoreError): void {
    this.lastError = error;
    if (!error.retryable || !this.want.queue) {
      this.giveBack();
      return this.answer({ kind: 'failed', error });
    }
    this.askIn(this.retryMs * (0.5 + Math.random() / 2));
    this.retryMs = Math.min(LONGEST_RETRY_MS, 2 * this.retryMs);
    this.refused = true;
    this.delayed(this);
  }

  /** Its trust was counted from an instant not before `countedFrom`. */
  private grant(grant: Grant, countedFrom: number): void {
    if (this.desk.watchdog.sleptSince(countedFrom)) return this.ask();
    const leftMs = grant.trustedUntil - this.desk.clock.now();
    if (leftMs <= 0) return this.failed(slownessError(this.key, this.want.leaseMs));
    // A grant made to a waiter is short at first. The watchdog would lengthen it; a fixed lease has to be by us.
    const short = !this.want.renew && this.refused;
    if (short || leftMs < Math.min(NEARLY_OVER_MS, this.want.leaseMs / 2)) void this.lengthen(grant);
    else this.answer({ kind: 'granted', id: this.id, grant });
  }

  private async lengthen(grant: Grant): Promise<void> {
    const { id, key } = this;
    const { leaseMs, minReplicas } = this.want;
    const sentAt = this.desk.clock.now();
    const [renewed] = await this.desk.store.renew([{ key, id, leaseMs, minReplicas }]);
    if (!this.isCurrent(id)) return;
    if (renewed?.kind !== 'renewed' || this.desk.watchdog.sleptSince(sentAt)) return this.ask();
    this.answer({ kind: 'granted', id, grant: { ...grant, trustedUntil: renewed.trustedUntil } });
  }

  private answer(answer: Answer): void {
    this.settle('answered');
    this.answered(answer);
  }

  private askIn(delayMs: number | undefined): void {
    const { schedule } = this.desk.watchdog;
    if (delayMs !== undefined) schedule.set((this.bound ??= new Alarm(() => this.ask())), this.desk.clock.now() + delayMs);
    else if (this.bound) schedule.cancel(this.bound);
  }

  /** The old place is gone; whatever still happens to its id must not be taken for this request. */
  private takeNewId(): void {
    this.desk.waiting.delete(this.id);
    this.desk.watchdog.forgetWaiter(this);
    this.id = this.desk.nextId();
  }

  private settle(state: 'answered' | 'cancelled'): void {
    this.state = state;
    this.desk.waiting.delete(this.id);
    this.desk.watchdog.forgetWaiter(this);
    this.askIn(undefined);
  }

  private giveBack(id = this.id): void {
    const { key, leaseMs, minHoldMs } = this.want;
    if (this.sent) this.desk.background.release({ key, id, abandoned: true }, Math.max(leaseMs, minHoldMs) + this.desk.commandTimeoutMs);
    if (this.replaces !== undefined) this.desk.background.release({ key, id: this.replaces }, leaseMs + this.desk.commandTimeoutMs);
  }
}
