/** One stop of the tour: what it shows of one feature, in a few lines, and whether Holdfast kept its promise there. */

export interface Stop {
  readonly kept: boolean;
  readonly lines: readonly string[];
}

/** A stop that compares the same work without and with the lock. */
export interface Comparison<T> {
  readonly withoutLock: T;
  readonly withLock: T;
}
