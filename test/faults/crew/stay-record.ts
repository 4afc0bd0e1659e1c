/**
 * What a process of a fault run records of each request for a lock. All instants are milliseconds of CLOCK_MONOTONIC,
 * which every process of a machine shares.
 */
import type { LockMode } from '../../../lib/core/port/lock-options.js';
import type { ReleaseOutcome } from '../../../lib/core/port/lease.js';

/** How the work of a caller finds out that it lost its lease: by asking before each step, or only by its signal. */
export type Caution = 'asks' | 'listens';

/** What one caller of a process does over and over. */
export interface CallerPlan {
  readonly key: string | readonly string[];
  readonly mode: LockMode;
  readonly leaseMs: number;
  readonly waitMs: readonly [number, number];
  readonly holdMs: readonly [number, number];
  readonly restMs: readonly [number, number];
  readonly caution: Caution;
  /** How long a step of the work takes from the look at the lease to its write, in ms. Default 0. */
  readonly stepMs?: number;
  readonly renew?: boolean;
  readonly minReplicas?: number;
}

export interface StayRecord {
  readonly process: string;
  readonly caller: number;
  readonly keys: readonly string[];
  readonly mode: LockMode;
  readonly caution: Caution;
  readonly leaseMs: number;
  readonly waitMs: number;
  readonly askedAt: number;
  /** When acquire resolved. */
  grantedAt?: number;
  fences?: Readonly<Record<string, number>>;
  /** The last instant at which the caller was sure of its lease: assertHeld() passed, or the signal had not aborted. */
  sureAt?: number;
  /** Until when the lease was trusted as of `sureAt`, in the process's own time; and when the caller found that a renewal had moved that. */
  trustedUntil?: number;
  renewedAt?: number[];
  /** The signal's event. */
  abortedAt?: number;
  /** assertHeld() threw. */
  threwAt?: number;
  /** release() was called, and what it said. */
  releasedAt?: number;
  releaseTookMs?: number;
  outcome?: ReleaseOutcome;
  /** release() threw: never. */
  releaseError?: string;
  /** acquire rejected. */
  refusedAt?: number;
  code?: string;
  message?: string;
  accepted: number;
  /** Writes that the resource refused. */
  stale: number;
}

/** A turn of an event loop that came late: when it ended, and how long it was, in ms. */
export type Lag = readonly [at: number, ms: number];

export interface ProcessReport {
  readonly stays: readonly StayRecord[];
  readonly lags: readonly Lag[];
}

export interface OpenFailure {
  readonly code?: string;
  readonly name: string;
  readonly message: string;
  readonly afterMs: number;
}
