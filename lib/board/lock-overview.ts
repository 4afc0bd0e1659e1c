/**
 * Sums up any number of locks in bounded memory: a limited number of rows, of the locks with the most waiters, and counts of all.
 */
import { type HolderState, type LockState, sinceOf, type WaiterState, type Whereabouts, whereaboutsOf } from '../core/port/lock-state.js';
import { roleOf } from '../core/key/check-key.js';
import type { LockMode } from '../core/port/lock-options.js';

export interface HolderRow extends Whereabouts, Omit<HolderState, 'id'> {
  /** About when the hold began, in ms of the store's wall clock; undefined when its fence does not come from a clock. */
  readonly since?: number | undefined;
}

export interface WaiterRow extends Whereabouts, WaiterState {}

/** One lock, with its first holders and waiters. */
export interface LockRow {
  readonly key: string;
  /** The role of which this is the lock: its holder leads, and its waiters stand for election. */
  readonly role?: string | undefined;
  readonly mode: LockMode | null;
  /** How many may hold the lock at a time, where there are permits. */
  readonly permits?: number | undefined;
  readonly holders: readonly HolderRow[];
  readonly moreHolders: number;
  /** The first waiters, in the order in which they will be served. */
  readonly waiters: readonly WaiterRow[];
  readonly moreWaiters: number;
}

export interface LockOverview {
  /** How many of the locks are held. */
  readonly held: number;
  /** How many of the locks have waiters. Those who stand for election do not count: they wait for as long as another process leads. */
  readonly waitedFor: number;
  /** How many waiters all locks have together. */
  readonly waiting: number;
  /** How many different processes these waiters are of. */
  readonly processes: number;
  /** How many roles are led. */
  readonly led: number;
  /** How many locks stay taken only because of the grace of a lease that has ended. */
  readonly inGrace: number;
  readonly rows: readonly LockRow[];
  /** How many locks have no row. */
  readonly more: number;
}

const MAX_HOLDERS = 8;
const MAX_WAITERS = 12;
/** How many processes are told apart. With more the exact number does not matter. */
const MAX_PROCESSES = 10_000;

/** Reads `locks` to their end and keeps at most `most` rows, of the locks with the most waiters. Rejects as `locks` does. */
export async function overviewOf(locks: AsyncIterable<LockState>, most: number): Promise<LockOverview> {
  let rows = new Map<string, LockRow>();
  let seen = 0;
  let held = 0;
  let waitedFor = 0;
  let waiting = 0;
  let led = 0;
  let inGrace = 0;
  const processes = new Set<string>();
  for await (const state of locks) {
    // A store may list a lock twice. It is counted once if it still has a row; remembering all keys would not be bounded.
    if (rows.has(state.key)) continue;
    seen += 1;
    held += state.mode === null ? 0 : 1;
    const isRole = roleOf(state.key) !== undefined;
    led += isRole && state.mode !== null ? 1 : 0;
    inGrace += isInGrace(state) ? 1 : 0;
    const waiters = isRole ? [] : state.waiters;
    waitedFor += waiters.length > 0 ? 1 : 0;
    waiting += waiters.length;
    for (const { id } of waiters) if (processes.size < MAX_PROCESSES) processes.add(whereaboutsOf(id).process);
    rows.set(state.key, rowOf(state));
    if (rows.size > 2 * most + 16) rows = new Map(first(rows, most));
  }
  const kept = first(rows, most).map(([, row]) => row);
  return { held, waitedFor, waiting, processes: processes.size, led, inGrace, rows: kept, more: seen - kept.length };
}

export function rowOf({ key, mode, permits, holders, waiters }: LockState): LockRow {
  return {
    key,
    role: roleOf(key),
    mode,
    permits,
    holders: holders.slice(0, MAX_HOLDERS).map(({ id, ...holder }) => ({ ...holder, ...whereaboutsOf(id), since: sinceOf(holder.fence) })),
    moreHolders: Math.max(0, holders.length - MAX_HOLDERS),
    waiters: waiters.slice(0, MAX_WAITERS).map((waiter) => ({ ...waiter, ...whereaboutsOf(waiter.id) })),
    moreWaiters: Math.max(0, waiters.length - MAX_WAITERS),
  };
}

/** True if the lock has a holder, and the leases of all its holders have ended. */
function isInGrace({ holders }: LockState): boolean {
  return holders.length > 0 && holders.every(({ remainingMs, graceMs = 0 }) => remainingMs <= 0 && graceMs > 0);
}

/** The rows of the most waited for, then those of roles, whose candidates do not count as waiting, then the others. */
function first(rows: ReadonlyMap<string, LockRow>, most: number): [string, LockRow][] {
  const rank = ({ role, waiters, moreWaiters }: LockRow): number => (role === undefined ? waiters.length + moreWaiters : 0.5);
  return [...rows].sort(([a, one], [b, other]) => rank(other) - rank(one) || (a < b ? -1 : 1)).slice(0, most);
}
