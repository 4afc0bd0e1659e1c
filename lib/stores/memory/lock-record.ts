/**
 * What is known of one lock that is taken: its holders, its queue, and the rules that need nothing else: who has
 * ended, whose turn it is, in which order the others will be served.
 *
 * Turns are phase-fair. Reading and writing take phases: a write phase is one holder, a read phase is everybody who
 * waited to read when it began, and whoever comes to read while no writer waits. So neither side starves the other.
 *
 *     free ──▶ write phase ──▶ read phase (all waiting readers) ──▶ write phase (the first waiting writer) ──▶ …
 *
 * A phase for which nobody waits is left out. A lock without holders has no record: who waits is let in at once.
 */
import type { LockMode } from '../../core/port/lock-mode.js';
import { MOST_HOLDS_OF_OWNER, type LockState } from '../../core/port/lock-store.js';

export interface Holder {
  readonly id: string;
  /** First of the fences reserved for this holder, and how many there are. */
  readonly fence: number;
  readonly fences: number;
  /** The lease's last instant, in ms of the machine's time. */
  end: number;
  /** The lock stays taken until here even if released before (`minHoldMs`). */
  readonly minEnd: number;
  /** Released before `minEnd`: nobody's hold any more, but the lock stays taken until `end`. */
  released: boolean;
  readonly owner: string | undefined;
  readonly label: string | undefined;
}

export interface Waiter {
  readonly id: string;
  readonly mode: LockMode;
  /** Last instant of the waiter's place, unless it is heard of before. */
  end: number;
  readonly leaseMs: number;
  readonly minHoldMs: number;
  readonly fences: number;
  readonly owner: string | undefined;
  readonly label: string | undefined;
}

/** Maps keep the order of arrival, so each of the two queues is one. */
export interface LockRecord {
  readonly key: string;
  /** The phase: how the present holders hold it, or the last ones held it. */
  mode: LockMode;
  readonly holders: Map<string, Holder>;
  readonly waiting: { readonly read: Map<string, Waiter>; readonly write: Map<string, Waiter> };
}

export function newRecord(key: string, mode: LockMode): LockRecord {
  return { key, mode, holders: new Map(), waiting: { read: new Map(), write: new Map() } };
}

/** Drops holders and waiters whose time is over. An end is the last instant at which it still counts. */
export function prune(lock: LockRecord, now: number): void {
  dropEnded(lock.holders, now);
  dropEnded(lock.waiting.read, now);
  dropEnded(lock.waiting.write, now);
}

function dropEnded(records: Map<string, { readonly end: number }>, now: number): void {
  for (const [id, record] of records) if (record.end < now) records.delete(id);
}

/** The holder with this id, if it has not released. */
export function holderOf(lock: LockRecord, id: string): Holder | undefined {
  const holder = lock.holders.get(id);
  return holder?.released === true ? undefined : holder;
}

export function waiterOf(lock: LockRecord, id: string): Waiter | undefined {
  return lock.waiting.read.get(id) ?? lock.waiting.write.get(id);
}

/** A holder whose hold a request of `owner` may join. */
export function holderOwnedBy(lock: LockRecord, owner: string | undefined): Holder | undefined {
  if (owner === undefined) return undefined;
  for (const holder of lock.holders.values()) if (holder.owner === owner && !holder.released) return holder;
  return undefined;
}

/** The scripts read all holds of an owner, so there is an end to their number. */
export function isFullFor(lock: LockRecord, owner: string | undefined): boolean {
  let holds = 0;
  for (const holder of lock.holders.values()) if (holder.owner === owner && !holder.released) holds++;
  return holds >= MOST_HOLDS_OF_OWNER;
}

export function isContended(lock: LockRecord): boolean {
  return lock.waiting.read.size > 0 || lock.waiting.write.size > 0;
}

/** Whether a newcomer may enter a lock that is held: readers among readers, unless a writer waits. */
export function mayJoin(lock: LockRecord, mode: LockMode): boolean {
  return mode === 'read' && lock.mode === 'read' && lock.waiting.write.size === 0;
}

/** Those whose turn it is now, after pruning: empty, one writer, or all waiting readers. */
export function whoseTurn(lock: LockRecord): readonly Waiter[] {
  const { read, write } = lock.waiting;
  if (lock.holders.size > 0) {
    // Readers wait beside readers only because of a writer; it gave up.
    return lock.mode === 'read' && write.size === 0 ? [...read.values()] : [];
  }
  if (read.size > 0 && (lock.mode === 'write' || write.size === 0)) return [...read.values()];
  return [...write.values()].slice(0, 1);
}

/** Who will be served next, if nobody else comes. */
export function firstInLine(lock: LockRecord): Waiter | undefined {
  const [reader] = lock.waiting.read.values();
  const [writer] = lock.waiting.write.values();
  return lock.mode === 'write' ? (reader ?? writer) : (writer ?? reader);
}

/** The instant at which the lock is still taken for the last time, if nobody renews or releases. */
export function lastEnd(lock: LockRecord): number {
  let last = -Infinity;
  for (const holder of lock.holders.values()) last = Math.max(last, holder.end);
  return last;
}

/** Takes an id out of the lock; one that owes a part of its minHoldMs leaves the lock taken for the rest of it, unless its work never began. */
export function leave(lock: LockRecord, id: string, now: number, abandoned = false): boolean {
  const holder = holderOf(lock, id);
  if (holder === undefined) return lock.waiting.read.delete(id) || lock.waiting.write.delete(id);
  if (holder.minEnd > now && !abandoned) {
    holder.released = true;
    holder.end = holder.minEnd;
  } else {
    lock.holders.delete(id);
  }
  return true;
}

/** The lock as it is now, without those who have ended but have not been dropped yet. */
export function describe(key: string, lock: LockRecord, now: number): LockState {
  const lives = ({ end }: { readonly end: number }): boolean => end >= now;
  const readers = [...lock.waiting.read.values()].filter(lives);
  const writers = [...lock.waiting.write.values()].filter(lives);
  const order = lock.mode === 'write' ? [...readers, ...writers] : [...writers.slice(0, 1), ...readers, ...writers.slice(1)];
  const waiters = order.map(({ id, mode, label }) => ({ id, mode, label }));
  const holders = [...lock.holders.values()]
    .filter(lives)
    .map(({ id, fence, owner, label, end }) => ({ id, fence, owner, label, remainingMs: end - now }));
  return { key, mode: holders.length > 0 ? lock.mode : null, holders, waiters };
}
