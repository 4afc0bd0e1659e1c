/** What a fault run is judged by: what its scenario allows, and what its processes recorded. */
import type { ResourceState } from './fenced-resource.js';
import type { Lateness } from './holds.js';
import type { Lag, ProcessReport, StayRecord } from './stay-record.js';

/** What a scenario says may happen in it. */
export interface Allowance {
  /**
   * `none`: no lease may be lost at all; `during`: only between the fault's start and two seconds after its end; `ended`: only one whose own
   * trust ended before its process had reached the servers again, or whose process did not reach them within `recoveryMs`.
   */
  readonly losses: 'none' | 'during' | 'ended';
  readonly recoveryMs?: number;
  /** How long two holders may both be sure when the store lost its memory, as the docs state it, in ms. */
  readonly overlapMs?: number;
  /** For a while two servers took themselves for the master: fences rise on each, and the resource tells them apart. */
  readonly splitBrain?: boolean;
  /** No write may come too late, not even one that its holder began before it was stopped and that ends after its lease. */
  readonly noLateWrites?: boolean;
  /** Service is back so long after the fault's end, in ms. */
  readonly resumesWithinMs?: number;
  /** No waiter sleeps on a free lock for longer, in ms; outside the fault unless `idleInside`. */
  readonly idleMs?: number;
  readonly idleInside?: boolean;
}

export interface Outage {
  readonly from: number;
  readonly to: number;
}

export interface RunRecord {
  readonly reports: readonly ProcessReport[];
  /** Late turns of the test's own event loop, through which the proxies go. */
  readonly lags: readonly Lag[];
  readonly resource: ResourceState;
  /** When every key has been granted, and every process had the time to hear of it: from then on the store is in service. */
  readonly warmAt: number;
  readonly outage: Outage;
  /** When the processes were told to stop. */
  readonly stoppedAt: number;
  readonly keysLeft: readonly string[];
  readonly complaints: readonly string[];
}

/** What every part of the verdict is judged by. */
export interface Trial {
  readonly stays: readonly StayRecord[];
  readonly record: RunRecord;
  readonly allowance: Allowance;
  readonly lateness: Lateness;
}

export const RESUMES_WITHIN_MS = 2_000;
export const IDLE_MS = 1_000;
