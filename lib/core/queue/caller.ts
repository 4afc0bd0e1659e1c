/**
 * A call of this process that waits for a lock. It is settled once: by what it waits for, by the end of its waitMs, by its
 * signal, or by an error.
 */
import { Appointment } from '../lease/appointment.js';
import type { Schedule } from '../lease/schedule.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import { endedBy, offAbort, onAbort, reasonOf, type AbortListener } from './abort-signals.js';

/** How long a caller with waitMs 0, or an adoption with a shorter one, waits for the store's first answer, in ms. */
export const ANSWER_WITHIN_MS = 800;

/** Which lock a caller wants, with which options, and until when. */
export interface CallerWish {
  readonly key: string;
  readonly options: ResolvedOptions;
  /** The local instant at which its waitMs is over. A call that wants several locks has the same instant for all of them. */
  readonly until: number;
  /** Whether the call was made inside a hold. Then it is still served while the module shuts down, because the hold may need it. */
  readonly insideHold: boolean;
  /** Called once when the caller is not served at once. Returns the function to call when its wait ends, if anybody wants to know. */
  waitBegan(): WaitEnded | undefined;
}

/** Called when a wait has ended, with the error if that ended it: not for a caller that got the lock, and for one whose signal aborted. */
export type WaitEnded = (reason?: unknown) => void;

/** The queue in which a caller waits. */
export interface CallerKeeper<T> {
  /**
   * The caller's waitMs is over (`reason` is undefined), or its signal aborted with this reason, which may be null. It may have left the
   * queue before; then nothing happens.
   */
  giveUp(caller: Caller<T>, reason: unknown): void;
}

export class Caller<T> extends Appointment implements AbortListener {
  readonly options: ResolvedOptions;
  /** Its number among all callers that ever came to its line, and its neighbours there. Only the line writes these fields. */
  arrival = 0;
  before: Caller<T> | undefined;
  after: Caller<T> | undefined;
  private told = false;
  private settled = false;
  private waitEnded: WaitEnded | undefined;
  private keeper: CallerKeeper<T> | undefined;

  constructor(
    readonly wish: CallerWish,
    private readonly schedule: Schedule,
    private readonly onResolved: (value: T) => void,
    private readonly onRejected: (reason: unknown) => void,
  ) {
    super();
    this.options = wish.options;
  }

  /** From now on the keeper is called when this caller's time is over or its signal aborts. */
  startWaiting(keeper: CallerKeeper<T>): void {
    this.keeper = keeper;
    this.schedule.waitBegins();
    const { until } = this.wish;
    const { waitMs, signal } = this.options;
    this.schedule.set(this, waitMs === 0 ? until + ANSWER_WITHIN_MS : until);
    if (signal) onAbort(signal, this);
  }

  /** Called when the time to wait is over. */
  due(): void {
    this.giveUp(undefined);
  }

  /** Called when the signal has aborted. */
  aborted(): void {
    this.giveUp(reasonOf(this.options.signal!));
  }

  /** Leaves the queue in which it waits, and is rejected with this reason; without one because its waitMs is over. */
  giveUp(reason: unknown): void {
    this.keeper!.giveUp(this, reason);
  }

  /** Reports, once, that this caller was not served at once. */
  tellWaiting(): void {
    if (this.told || this.settled) return;
    this.told = true;
    this.waitEnded = this.wish.waitBegan();
    // Who listens to the event may have ended the wait before this call returned.
    if (this.settled) this.waitEnded?.();
  }

  resolve(value: T): void {
    this.stopWaiting();
    this.waitEnded?.();
    this.onResolved(value);
  }

  reject(reason: unknown): void {
    this.stopWaiting();
    this.waitEnded?.(endedBy(this.options.signal, reason) ? undefined : reason);
    this.onRejected(reason);
  }

  private stopWaiting(): void {
    this.settled = true;
    if (this.keeper !== undefined) this.schedule.waitEnds();
    this.schedule.cancel(this);
    const { signal } = this.options;
    if (signal) offAbort(signal, this);
  }
}
