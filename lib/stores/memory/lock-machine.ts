/**
 * The lock algorithm as a small state machine: each command gets the time, changes the state, and gives the port's answer and wakes.
 * It reads no clock and waits for nothing. Its time is that of the holders, so a lease is trusted to its last instant. The embedded
 * store runs on it, and the Lua scripts are compared with it command by command (test/model), so it can be read as their specification.
 *
 * Every command but renew and inspect settles the lock: it drops holders and waiters whose time is over, and grants the lock to the
 * waiters whose turn it is. So the queue behind a holder that crashed is served by the next command on the lock.
 *
 *     acquire ──▶ granted ───────────────┐            release   takes an id away, holding or waiting
 *        │                               ▼            renew     never creates, never revives, never shortens
 *        └─────▶ waiting ──▶ pushed grant, short until its first renewal
 */
import type { LockState } from '../../core/port/lock-state.js';
import {
  FIRST_LEASE_MS, type AcquireAnswer, type AcquireOutcome, type AcquireRequest, type HeartbeatOutcome, type HolderRef, type ReleaseRequest, type RenewOutcome,
  type RenewRequest, type Wake,
} from '../../core/port/lock-store.js';
import {
  describe,
  grantOf,
  holderOf,
  holderOwnedBy,
  firstInLine,
  isContended,
  isFullFor,
  isMeantBy,
  lastEnd,
  leaseEnd,
  leave,
  mayJoin,
  newRecord,
  nextEnd,
  prune,
  waiterOf,
  whoseTurn,
  type Holder,
  type LockRecord,
  type Waiter,
} from './lock-record.js';

/** The time that a command is given: `ms` for leases, by the clock of their holders; and `us` of the wall clock for fences, so that they go on rising after a restart. */
export interface Instant {
  readonly ms: number;
  readonly us: number;
}

/** A waiter that sends no heartbeat for longer than this, in ms, loses its place. */
export const WAITER_LEASE_MS = 2_500;

/** The answer to a request that came after its `notAfter`: nothing was done. */
type Late = { readonly kind: 'late' };

/** When asking again may make sense, in ms, as the port wants it said. Nobody goes by it: whoever waits has a place here. */
const BUSY_RETRY_MS = 25;

/** What both an acquire and a heartbeat may answer. */
type GrantOrPlace = Extract<HeartbeatOutcome, { kind: 'granted' | 'waiting' }>;

export class LockMachine {
  /** One record for each lock that is taken, removed with its last holder. */
  private readonly locks = new Map<string, LockRecord>();
  /** The last fence, one for all keys. The scripts keep one for each slot group, which only a Cluster needs. */
  private lastFence = 0;

  constructor(private readonly wake: (wake: Wake) => void) {}

  acquire(request: AcquireRequest, at: Instant): AcquireOutcome | Late {
    if (at.ms > request.notAfter) return { kind: 'late' };
    const { key, id, replaces, handsOn } = request;
    if (request.takesOver !== undefined) return this.takeOver(request, at);
    if (replaces === undefined || this.leaveAndSettle({ key, id: replaces, abandoned: replaces === id }, at, handsOn ? request : undefined)) return this.answer(request, at);
    return { ...this.answer(request, at), replacedLost: true };
  }

  private answer(request: AcquireRequest, at: Instant): AcquireAnswer {
    const lock = this.settle(request.key, at);
    if (lock === undefined) return this.grantNow(request, this.open(request), at);
    const held = holderOf(lock, request.id);
    if (held !== undefined) return { kind: 'granted', grant: grantOf(lock, held) };
    const place = waiterOf(lock, request.id);
    if (place !== undefined) return this.besideOwner(lock, place, at) ?? keepPlace(lock, place, at);
    if (lock.permits !== request.permits) return { kind: 'permits', permits: lock.permits };
    const kin = holderOwnedBy(lock, request.owner);
    if (kin !== undefined) {
      if (lock.mode === 'read' && request.mode === 'write') return { kind: 'upgrade' };
      return isFullFor(lock, request.owner) ? { kind: 'full' } : this.grantNow(request, lock, at, kin.fence);
    }
    if (mayJoin(lock, request.mode)) return this.grantNow(request, lock, at);
    return request.queue ? this.enqueue(request, lock, at) : { kind: 'busy', retryInMs: BUSY_RETRY_MS };
  }

  /** Puts a request into the place of the holder whose hold it takes. What minHoldMs owes beyond a ticket's time stands as its grace. */
  private takeOver({ key, id, replaces, takesOver, leaseMs, graceMs = 0, label, ticketUntil = Infinity }: AcquireRequest, at: Instant): AcquireAnswer {
    const lock = this.settle(key, at);
    const present = lock && holderOf(lock, id);
    if (present) return takenOver(lock, present, at);
    const holder = lock && holderOf(lock, replaces!);
    if (!holder || (takesOver === 'ticket' && Math.min(ticketUntil, leaseEnd(holder)) < at.ms)) return { kind: 'gone', now: at.ms, memory: undefined };
    const end = Math.max(at.ms + leaseMs, holder.minEnd);
    if (takesOver !== 'ticket') return takenOver(lock, putIn(lock, { ...holder, id, end, graceMs: end - at.ms - leaseMs }, takesOver === 'hold' ? holder : undefined), at);
    const kin = [...lock.holders.values()].find((other) => other !== holder && other.owner === holder.owner && !other.released);
    const fence = (holder.owner === undefined ? undefined : kin?.fence) ?? this.reserveFences(1, at);
    return takenOver(lock, putIn(lock, { ...holder, id, fence, fences: 1, end: end + graceMs, graceMs, label }, holder), at);
  }

  /** Renews one holder and does not settle the lock, because a renewal in Redis uses one Redis key only. */
  renew(request: RenewRequest, at: Instant): RenewOutcome {
    const lock = this.locks.get(request.key);
    const holder = lock && holderOf(lock, request.id);
    if (lock === undefined || holder === undefined || holder.end < at.ms) return { kind: 'lost' };
    // The end is never moved back, because the holder trusts the end that an earlier answer gave it. It is not before minEnd
    // either: a grant to a waiter is short at first, and gets its minHoldMs with the first renewal.
    holder.end = Math.max(holder.end, at.ms + request.leaseMs + holder.graceMs, holder.minEnd + holder.graceMs);
    return { kind: 'renewed', trustedUntil: leaseEnd(holder), contended: isContended(lock) };
  }

  /** Keeps a waiter's place in the queue, or returns its grant, whose wake may have been lost. */
  heartbeat(ref: HolderRef, at: Instant): HeartbeatOutcome {
    const lock = this.settle(ref.key, at);
    const held = lock && holderOf(lock, ref.id);
    if (lock !== undefined && held !== undefined) return { kind: 'granted', grant: grantOf(lock, held) };
    const place = lock && waiterOf(lock, ref.id);
    if (lock === undefined || place === undefined) return { kind: 'gone' };
    return this.besideOwner(lock, place, at) ?? keepPlace(lock, place, at);
  }

  /** Releases a hold or leaves the queue. It is one command for both, because a waiter that gives up may have been granted just before. */
  release(request: ReleaseRequest, at: Instant): 'released' | 'lost' {
    return this.leaveAndSettle(request, at) ? 'released' : 'lost';
  }

  /** Takes away an id, whether it was there, and serves those who wait; before them `heir`, if the id held a permit. */
  private leaveAndSettle({ key, id, abandoned }: ReleaseRequest, at: Instant, heir?: AcquireRequest): boolean {
    const lock = this.locks.get(key);
    if (lock === undefined) return false;
    prune(lock, at.ms);
    const inherits = heir !== undefined && lock.permits === heir.permits && holderOf(lock, id) !== undefined && holderOf(lock, heir.id) === undefined;
    const there = leave(lock, id, at.ms, abandoned);
    if (inherits && lock.holders.size < (lock.permits ?? 0)) {
      lock.waiting.write.delete(heir.id);
      this.grantNow(heir, lock, at);
    }
    this.settle(key, at);
    return there;
  }

  downgrade(ref: HolderRef, at: Instant): 'downgraded' | 'lost' {
    const lock = this.settle(ref.key, at);
    if (lock === undefined || holderOf(lock, ref.id) === undefined) return 'lost';
    // With other holds of the same owner, which may still write, the lock stays a write lock, which is stricter than needed.
    if (lock.mode === 'write' && lock.permits === undefined && lock.holders.size === 1) {
      lock.mode = 'read';
      this.push(lock, [...lock.waiting.read.values()], at);
    }
    return 'downgraded';
  }

  /** Takes the lock from the holders with this fence, or from all, and wakes them. */
  forceRelease(key: string, fence: number | undefined, at: Instant): boolean {
    const lock = this.settle(key, at);
    if (lock === undefined) return false;
    let found = false;
    for (const holder of lock.holders.values()) {
      if (fence !== undefined && !isMeantBy(lock, holder, fence)) continue;
      found = true;
      lock.holders.delete(holder.id);
      if (!holder.released) this.wake({ kind: 'lost', key: lock.key, id: holder.id });
    }
    this.settle(key, at);
    return found;
  }

  /** The state of the lock. It changes nothing, so it grants nothing either. */
  inspect(key: string, at: Instant): LockState {
    const lock = this.locks.get(key);
    return lock === undefined ? { key, mode: null, holders: [], waiters: [] } : describe(lock, at.ms);
  }

  /** The keys of all locks that have a record: they are taken, or have ended and were not settled since. */
  keys(): IterableIterator<string> {
    return this.locks.keys();
  }

  /** How many locks have a record. */
  get size(): number {
    return this.locks.size;
  }

  /** Settles the locks whose last lease has ended, and returns when the first of the others will end; Infinity when there are none. */
  collect(at: Instant): number {
    let next = Infinity;
    for (const [key, lock] of this.locks) {
      const left = lastEnd(lock) < at.ms ? this.settle(key, at) : lock;
      if (left !== undefined) next = Math.min(next, lastEnd(left));
    }
    return next;
  }

  /** Drops what has ended and grants the lock to the waiters whose turn it is. Undefined when the lock is free then. */
  private settle(key: string, at: Instant): LockRecord | undefined {
    const lock = this.locks.get(key);
    if (lock === undefined) return undefined;
    prune(lock, at.ms);
    this.push(lock, whoseTurn(lock), at);
    if (lock.holders.size > 0) return lock;
    this.locks.delete(key);
    return undefined;
  }

  private open({ key, mode, permits }: AcquireRequest): LockRecord {
    const lock = newRecord(key, mode, permits);
    this.locks.set(key, lock);
    return lock;
  }

  private grantNow(request: AcquireRequest, lock: LockRecord, at: Instant, sharedFence?: number): GrantOrPlace {
    return { kind: 'granted', grant: grantOf(lock, this.enter(lock, request, Math.max(request.leaseMs, request.minHoldMs), at, sharedFence)) };
  }

  /** Grants the lock to waiters and wakes them. Their leases are short until the first renewal, because a waiter may have died. */
  private push(lock: LockRecord, waiters: readonly Waiter[], at: Instant): void {
    const entered = waiters.map((waiter) => {
      lock.waiting[waiter.mode].delete(waiter.id);
      lock.mode = waiter.mode;
      return this.enter(lock, waiter, Math.min(waiter.leaseMs, FIRST_LEASE_MS), at);
    });
    // The wakes are made after all have entered, because `contended` says whether others still wait then.
    for (const holder of entered) this.wake({ kind: 'granted', key: lock.key, id: holder.id, grant: grantOf(lock, holder) });
  }

  /** Grants to a waiter whose owner was granted the lock after it had queued, but no write beside readers, and no hold above the limit. */
  private besideOwner(lock: LockRecord, place: Waiter, at: Instant): GrantOrPlace | undefined {
    const kin = holderOwnedBy(lock, place.owner);
    if (kin === undefined || (lock.mode === 'read' && place.mode === 'write') || isFullFor(lock, place.owner)) return undefined;
    lock.waiting[place.mode].delete(place.id);
    const holder = this.enter(lock, place, Math.min(place.leaseMs, FIRST_LEASE_MS), at, kin.fence);
    return { kind: 'granted', grant: grantOf(lock, holder) };
  }

  private enter(lock: LockRecord, who: AcquireRequest | Waiter, lengthMs: number, at: Instant, sharedFence?: number): Holder {
    const { id, minHoldMs, graceMs = 0, owner, label } = who;
    const fences = sharedFence === undefined ? who.fences : 1;
    const fence = sharedFence ?? this.reserveFences(fences, at);
    const holder = { id, fence, fences, end: at.ms + lengthMs + graceMs, minEnd: at.ms + minHoldMs, graceMs, released: false, owner, label };
    lock.holders.set(id, holder);
    return holder;
  }

  private reserveFences(count: number, at: Instant): number {
    const first = Math.max(this.lastFence + 1, at.us);
    this.lastFence = first + count - 1;
    return first;
  }

  private enqueue(request: AcquireRequest, lock: LockRecord, at: Instant): GrantOrPlace {
    const { id, mode, leaseMs, minHoldMs, graceMs, fences, owner, label } = request;
    const wasContended = isContended(lock);
    const place = { id, mode, end: 0, leaseMs, minHoldMs, graceMs, fences, owner, label };
    lock.waiting[mode].set(id, place);
    if (!wasContended) {
      for (const holder of lock.holders.values()) if (!holder.released) this.wake({ kind: 'contended', key: lock.key, id: holder.id });
    }
    return keepPlace(lock, place, at);
  }
}

/** Keeps the waiter's place. Only the first in line learns when to ask again, so one question is asked for each lease that ends. */
function keepPlace(lock: LockRecord, place: Waiter, at: Instant): GrantOrPlace {
  place.end = at.ms + WAITER_LEASE_MS;
  return firstInLine(lock) === place ? { kind: 'waiting', askAgainInMs: nextEnd(lock) - at.ms + 1 } : { kind: 'waiting' };
}

/** Adds a holder, in the place of another one: the order of the holders stays. */
function putIn({ holders }: LockRecord, holder: Holder, replaced: Holder | undefined): Holder {
  const all = [...holders.values()];
  holders.clear();
  for (const one of all) holders.set(...(one === replaced ? ([holder.id, holder] as const) : ([one.id, one] as const)));
  return holders.get(holder.id) ?? holders.set(holder.id, holder).get(holder.id)!;
}

function takenOver(lock: LockRecord, holder: Holder, at: Instant): AcquireAnswer {
  const { owner, minEnd } = holder;
  return { kind: 'granted', grant: grantOf(lock, holder), taken: { owner, permits: lock.permits, minHoldMs: Math.max(0, minEnd - at.ms), end: leaseEnd(holder) } };
}
