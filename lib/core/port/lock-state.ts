/** What a store tells of a lock to those who look at it: who holds it, and who waits. */
import type { LockMode } from './lock-options.js';

/** Who holds a lock. */
export interface HolderState {
  /** Names the hold: the process that has it (host, process id), and a number. With `describeHolders: false` the process has a random name. */
  readonly id: string;
  /** The first fence that the store granted for it. A process that hands a lease on among its callers gives each a higher one. */
  readonly fence: number;
  /** The option `owner` of the call. */
  readonly owner?: string | undefined;
  /** Time until the lease ends unless it is renewed, in ms. */
  readonly remainingMs: number;
  /** How long the lock stays taken after that unless it is released, in ms. Undefined when there is no grace. */
  readonly graceMs?: number | undefined;
  /** What the holder says of itself: the option `label`, or class and method of a decorator. */
  readonly label?: string | undefined;
  /** The hold was handed off, and nobody has adopted it yet: `remainingMs` counts to the end of the ticket. */
  readonly handedOff?: true | undefined;
}

/** Who waits for a lock. */
export interface WaiterState {
  /** Names the request, as that of {@link HolderState} names a hold. */
  readonly id: string;
  /** How it wants the lock. */
  readonly mode: LockMode;
  /** The option `label`, or class and method of a decorator. */
  readonly label?: string | undefined;
}

/** What the store knows of one lock. For a free key the mode is null and both lists are empty. */
export interface LockState {
  /** The key as callers give it, without the prefix. */
  readonly key: string;
  /** How the lock is held; null when it is free. */
  readonly mode: LockMode | null;
  /** How many may hold the lock at a time, each with a permit, as the calls that hold it said. Undefined without permits. */
  readonly permits?: number | undefined;
  /** Those who hold the lock: one writer, all readers, or who have a permit. */
  readonly holders: readonly HolderState[];
  /** The waiters in the order in which they will be served. None on a Redlock, whose nodes keep no queue. */
  readonly waiters: readonly WaiterState[];
}

/** Options of {@link LockService.list}. */
export interface ListOptions {
  /**
   * Lists only the locks whose key starts with this.
   * @default all
   */
  readonly startsWith?: string | undefined;
}

/** What is left of a hold, as it is shown. `leftMs`: how long the lock stays taken unless it is renewed or released, `graceMs` at the end of it included. */
export function untilFree(leftMs: number, graceMs: number): Pick<HolderState, 'remainingMs' | 'graceMs'> {
  if (graceMs === 0) return { remainingMs: leftMs };
  return { remainingMs: Math.max(0, leftMs - graceMs), graceMs: Math.min(leftMs, graceMs) };
}

/** Where a holder or a waiter runs. Host and pid are undefined when its module has `describeHolders: false`. */
export interface Whereabouts {
  readonly host?: string | undefined;
  readonly pid?: number | undefined;
  /** The name with which the holder ids of the process begin. */
  readonly process: string;
}

/** The start of 2020 in µs. A smaller fence does not come from a clock that is set, so no date can be read from it. */
const FIRST_LIKELY_FENCE = 1_577_836_800_000_000;

/** The process of a holder id, which is `host:pid:random.sequence` or `random.sequence` (nest/lock-providers.ts makes its first part). */
export function whereaboutsOf(id: string): Whereabouts {
  const process = id.slice(0, id.lastIndexOf('.'));
  const [, host, pid] = /^([^:]+):(\d+):[^:]+$/.exec(process) ?? [];
  return host === undefined ? { process } : { process, host, pid: Number(pid) };
}

/**
 * About when the hold with this fence began, in ms of the store's wall clock; undefined when the fence does not come from a clock.
 * A fence is the store's clock in µs at the grant, or one more than the fence before it, whichever is greater.
 */
export function sinceOf(fence: number): number | undefined {
  return fence < FIRST_LIKELY_FENCE ? undefined : Math.floor(fence / 1_000);
}
