/**
 * Somebody in this process who waits: settled once, by what it waits for, by the end of its own patience, or by an error.
 */
import { Appointment, type Schedule } from '../lease/schedule.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import { offAbort, onAbort, type AbortListener } from './abort-signals.js';

/** Who does not want to wait still waits so long for the store's first answer. */
const ANSWER_WITHIN_MS = 800;

/** What a caller wants, and until when. */
export interface CallerWish {
  readonly key: string;
  readonly options: ResolvedOptions;
  /** Local instant at which its time to wait is over; several locks of one request share it. */
  readonly until: number;
  /** Made from inside a running hold: still served while the module shuts down. */
  readonly insideHold: boolean;
  /** Told once, when the caller could not be served at once. */
  waitBegan(): WaitEnded | undefined;
}

/** Called when a wait that was told has ended; with the reason when it was in vain. */
export type WaitEnded = (reason?: unknown) => void;

/** Where a caller waits. */
export interface CallerKeeper<T> {
  /** Its time to wait is over, or its signal aborted with this reason, which may be null. */
  giveUp(caller: Caller<T>, reason: unknown): void;
}

export class Caller<T> extends Appointment implements AbortListener {
  readonly options: ResolvedOptions;
  /** Which of those that ever came to its line it is, and its neighbours there. Only the line writes them. */
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

  /** From now on the keeper is told when it gives up. */
  startWaiting(keeper: CallerKeeper<T>): void {
    this.keeper = keeper;
    const { until } = this.wish;
    const { waitMs, signal } = this.options;
    this.schedule.set(this, waitMs === 0 ? until + ANSWER_WITHIN_MS : until);
    if (signal?.aborted) this.aborted();
    else if (signal) onAbort(signal, this);
  }

  due(): void {
    this.keeper?.giveUp(this, undefined);
  }

  /** The signal aborted. */
  aborted(): void {
    this.keeper?.giveUp(this, this.options.signal?.reason);
  }

  /** Reports once that this caller could not be served at once. */
  tellWaiting(): void {
    if (this.told || this.settled) return;
    this.told = true;
    this.waitEnded = this.wish.waitBegan();
  }

  resolve(value: T): void {
    this.stopWaiting();
    this.waitEnded?.();
    this.onResolved(value);
  }

  reject(reason: unknown): void {
    this.stopWaiting();
    this.waitEnded?.(reason);
    this.onRejected(reason);
  }

  private stopWaiting(): void {
    this.settled = true;
    this.schedule.cancel(this);
    const { signal } = this.options;
    if (signal) offAbort(signal, this);
  }
}
