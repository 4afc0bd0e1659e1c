/**
 * The record of one lock that is taken: its holders and its queue, and the rules that need nothing else: which of them have ended,
 * whose turn it is, and in which order the others will be served.
 *
 * Turns are phase-fair: phases of writing and of reading alternate. A write phase has one holder. A read phase has all readers that
 * waited when it began, and those that come while no writer waits. So neither side starves the other.
 *
 *     free ──▶ write phase ──▶ read phase (all waiting readers) ──▶ write phase (the first waiting writer) ──▶ …
 *
 * A phase for which nobody waits is left out. A lock with permits has one phase, of writing, with up to so many holders at a time. A
 * lock without holders has no record, because its waiters are granted it at once.
 */
import type { LockMode } from '../../core/port/lock-options.js';
import { isTicketId } from '../../core/port/ticket.js';
import { type LockState, untilFree } from '../../core/port/lock-state.js';
import { MAX_HOLDS_OF_OWNER, type Grant } from '../../core/port/lock-store.js';

export interface Holder {
  readonly id: string;
  /** The first of the fences that are reserved for this holder, and how many there are. */
  readonly fence: number;
  readonly fences: number;
  /** The last instant at which the lock is taken, in ms of the machine's time: the lease has ended `graceMs` before. */
  end: number;
  graceMs: number;
  /** The lock stays taken until this instant, even if it is released before (`minHoldMs`). */
  readonly minEnd: number;
  /** Whether it was released before `minEnd`: the hold is over, but the lock stays taken until `end`. */
  released: boolean;
  readonly owner: string | undefined;
  readonly label: string | undefined;
}

export interface Waiter {
  readonly id: string;
  readonly mode: LockMode;
  /** The last instant at which the waiter has its place, unless a heartbeat comes before. */
  end: number;
  readonly leaseMs: number;
  readonly minHoldMs: number;
  readonly graceMs: number | undefined;
  readonly fences: number;
  readonly owner: string | undefined;
  readonly label: string | undefined;
}

/** What is stored of a lock. The two queues are Maps, which keep the order of arrival. */
export interface LockRecord {
  readonly key: string;
  /** The phase: how the present holders hold the lock, or the last ones held it. */
  mode: LockMode;
  /** How many may hold it at a time; undefined for a lock without permits. */
  readonly permits: number | undefined;
  readonly holders: Map<string, Holder>;
  readonly waiting: { readonly read: Map<string, Waiter>; readonly write: Map<string, Waiter> };
}

export function newRecord(key: string, mode: LockMode, permits: number | undefined): LockRecord {
  return { key, mode, permits, holders: new Map(), waiting: { read: new Map(), write: new Map() } };
}

/** Drops holders and waiters whose time is over. An `end` is the last instant at which they still count. */
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

/** A holder of this owner, whose hold its next request may join. */
export function holderOwnedBy(lock: LockRecord, owner: string | undefined): Holder | undefined {
  if (owner === undefined) return undefined;
  for (const holder of lock.holders.values()) if (holder.owner === owner && !holder.released) return holder;
  return undefined;
}

/** Whether the owner has as many holds as there may be. Their number is bounded, because the scripts read all of them. */
export function isFullFor(lock: LockRecord, owner: string | undefined): boolean {
  let holds = 0;
  for (const holder of lock.holders.values()) if (holder.owner === owner && !holder.released) holds++;
  return holds >= MAX_HOLDS_OF_OWNER;
}

export function isContended(lock: LockRecord): boolean {
  return lock.waiting.read.size > 0 || lock.waiting.write.size > 0;
}

/**
 * Whether a new request may share a lock that is held: a reader with readers, unless a writer waits; one for a permit when one is
 * free, because those who waited for it have it already.
 */
export function mayJoin(lock: LockRecord, mode: LockMode): boolean {
  if (lock.permits !== undefined) return lock.holders.size < lock.permits;
  return mode === 'read' && lock.mode === 'read' && lock.waiting.write.size === 0;
}

/** The waiters whose turn it is now, in a pruned record: none, one writer, all readers that wait, or one for each free permit. */
export function whoseTurn(lock: LockRecord): readonly Waiter[] {
  const { read, write } = lock.waiting;
  if (lock.permits !== undefined) return [...write.values()].slice(0, lock.permits - lock.holders.size);
  if (lock.holders.size > 0) {
    // Readers wait while readers hold the lock only because a writer waits. If none does, the writer gave up, and they may enter.
    return lock.mode === 'read' && write.size === 0 ? [...read.values()] : [];
  }
  if (read.size > 0 && (lock.mode === 'write' || write.size === 0)) return [...read.values()];
  return [...write.values()].slice(0, 1);
}

/** The waiter that will be served next, if no other request comes. */
export function firstInLine(lock: LockRecord): Waiter | undefined {
  const [reader] = lock.waiting.read.values();
  const [writer] = lock.waiting.write.values();
  return lock.mode === 'write' ? (reader ?? writer) : (writer ?? reader);
}

/** The last instant of a holder's lease, before its grace. */
export function leaseEnd({ end, graceMs }: Holder): number {
  return end - graceMs;
}

/** What a holder is told that it has. */
export function grantOf(lock: LockRecord, holder: Holder): Grant {
  const { fence, fences } = holder;
  return { fence, fences, mode: lock.mode, trustedUntil: leaseEnd(holder), contended: isContended(lock) };
}

/** The last instant at which the lock is taken, if no holder renews or releases it. */
export function lastEnd(lock: LockRecord): number {
  let last = -Infinity;
  for (const holder of lock.holders.values()) last = Math.max(last, holder.end);
  return last;
}

/** The last instant before somebody can be let in, if no holder renews or releases: of a lock with permits that of the first to end. */
export function nextEnd(lock: LockRecord): number {
  if (lock.permits === undefined) return lastEnd(lock);
  return Math.min(...[...lock.holders.values()].map(({ end }) => end));
}

/** Whether a holder is meant by this fence. A process may hand a permit on under a fence that was reserved with another of its permits. */
export function isMeantBy(lock: LockRecord, { fence: first, fences }: Holder, fence: number): boolean {
  return fence === first || (lock.permits === undefined && fence > first && fence < first + fences);
}

/** Takes an id out of the lock. The lock stays taken for what is left of the holder's minHoldMs, unless its work never began. */
export function leave(lock: LockRecord, id: string, now: number, abandoned = false): boolean {
  const holder = holderOf(lock, id);
  if (holder === undefined) return lock.waiting.read.delete(id) || lock.waiting.write.delete(id);
  if (holder.minEnd > now && !abandoned) {
    holder.released = true;
    holder.end = holder.minEnd;
    holder.graceMs = 0;
    if (lock.permits === undefined) keepLastReleased(lock);
  } else {
    lock.holders.delete(id);
  }
  return true;
}

/** Of any number of readers that owe minHoldMs, that which owes it for longest says for how long the lock stays taken. */
function keepLastReleased({ holders }: LockRecord): void {
  const released = [...holders.values()].filter((holder) => holder.released);
  const last = released.reduce((one, other) => (other.end > one.end ? other : one));
  for (const { id } of released) if (id !== last.id) holders.delete(id);
}

/** The state of the lock now, without holders and waiters that have ended but were not dropped yet. */
export function describe(lock: LockRecord, now: number): LockState {
  const lives = ({ end }: { readonly end: number }): boolean => end >= now;
  const readers = [...lock.waiting.read.values()].filter(lives);
  const writers = [...lock.waiting.write.values()].filter(lives);
  const order = lock.mode === 'write' ? [...readers, ...writers] : [...writers.slice(0, 1), ...readers, ...writers.slice(1)];
  const waiters = order.map(({ id, mode, label }) => ({ id, mode, label }));
  const holders = [...lock.holders.values()]
    .filter(lives)
    .map(({ id, fence, owner, label, end, graceMs }) => ({ id, fence, owner, label, ...untilFree(end - now, graceMs), ...(isTicketId(id) && { handedOff: true as const }) }));
  const isHeld = holders.length > 0;
  return { key: lock.key, mode: isHeld ? lock.mode : null, permits: isHeld ? lock.permits : undefined, holders, waiters };
}
