/**
 * Somebody in this process who waits: settled once, by what it waits for, by the end of its own patience, or by an error.
 */
import { offAbort, onAbort, type AbortListener } from './abort-signals.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import { Appointment, type Schedule } from '../lease/schedule.js';

/** Who does not want to wait still waits so long for the store's first answer. */
const ANSWER_WITHIN_MS = 800;

export class Caller<T> extends Appointment implements AbortListener {
  /** Which of those that ever came to its queue it is. Only the queue writes it. */
  arrival = 0;
  private told = false;
  private settled = false;
  private giveUp: ((reason: unknown) => void) | undefined;

  constructor(
    readonly options: ResolvedOptions,
    /** When its time to wait is over; several locks of one request share it. */
    private readonly until: number,
    /** Made from inside a running hold: still served while the module shuts down. */
    readonly insideHold: boolean,
    private readonly onWaiting: () => void,
    private readonly schedule: Schedule,
    private readonly settle: { resolve(value: T): void; reject(reason: unknown): void },
  ) {
    super();
  }

  /** From now on `giveUp` is called when the time to wait is over, or with the signal's reason, which may be null. */
  startWaiting(giveUp: (reason: unknown) => void): void {
    this.giveUp = giveUp;
    const { waitMs, signal } = this.options;
    this.schedule.set(this, waitMs === 0 ? this.until + ANSWER_WITHIN_MS : this.until);
    if (signal?.aborted) this.aborted();
    else if (signal) onAbort(signal, this);
  }

  due(): void {
    this.giveUp?.(undefined);
  }

  /** The signal aborted. */
  aborted(): void {
    this.giveUp?.(this.options.signal?.reason);
  }

  /** Reports once that this caller could not be served at once. */
  tellWaiting(): void {
    if (this.told || this.settled) return;
    this.told = true;
    this.onWaiting();
  }

  resolve(value: T): void {
    this.stopWaiting();
    this.settle.resolve(value);
  }

  reject(reason: unknown): void {
    this.stopWaiting();
    this.settle.reject(reason);
  }

  private stopWaiting(): void {
    this.settled = true;
    this.schedule.cancel(this);
    if (this.options.signal) offAbort(this.options.signal, this);
  }
}
