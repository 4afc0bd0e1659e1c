/**
 * The lock algorithm as a small state machine: each command gets the time, changes the state, and gives the port's answer and wakes.
 * It reads no clock and waits for nothing. Its time is that of the holders, so a lease is trusted to its last instant. The embedded
 * store runs on it, and the Lua scripts are compared with it command by command (test/model), so it can be read as their specification.
 *
 * Every command but renew and inspect settles the lock: it drops holders and waiters whose time is over, and grants the lock to the
 * waiters whose turn it is. So the queue behind a holder that crashed is served by the next command on the lock.
 *
 * Turns are phase-fair: phases of writing and of reading alternate. A write phase has one holder. A read phase has all readers that
 * waited when it began, and those that come while no writer waits. So neither side starves the other.
 *
 *     free ──▶ write phase ──▶ read phase (all waiting readers) ──▶ write phase (the first waiting writer) ──▶ …
 *
 * A phase for which nobody waits is left out. A lock with permits has one phase, of writing, with up to so many holders at a time. A
 * lock without holders has no record, because its waiters are granted it at once.
 *
 *     acquire ──▶ granted ───────────────┐            release   takes an id away, holding or waiting
 *        │                               ▼            renew     never creates, never revives, never shortens
 *        └─────▶ waiting ──▶ pushed grant, short until its first renewal
 */
import type { LockMode } from '../../core/port/lock-options.js';
import { type LockState, untilFree } from '../../core/port/lock-state.js';
import {
  FIRST_LEASE_MS, MAX_HOLDS_OF_OWNER, type AcquireAnswer, type AcquireOutcome, type AcquireRequest, type Grant, type HolderRef,
  type ReleaseRequest, type RenewOutcome, type RenewRequest, type Wake,
} from '../../core/port/lock-store.js';
import { isTicketId } from '../../core/port/ticket.js';

/** The time that a command is given: `ms` for leases, by the clock of their holders; `us` of the wall clock for fences, which rise over a restart. */
export interface Instant {
  readonly ms: number;
  readonly us: number;
}

/** A waiter that does not ask again for longer than this, in ms, loses its place. */
export const WAITER_LEASE_MS = 2_500;

interface Holder {
  readonly id: string;
  /** The first of the fences that are reserved for this holder, and how many there are. */
  readonly fence: number;
  readonly fences: number;
  /** The last instant at which the lock is taken, in ms of the machine's time: the lease has ended `graceMs` before. */
  end: number;
  graceMs: number;
  /** The lock stays taken until this instant, even if it is released before (`minHoldMs`). */
  readonly minEnd: number;
  /** True if it was released before `minEnd`: the hold is over, but the lock stays taken until `end`. */
  released: boolean;
  readonly owner: string | undefined;
  readonly label: string | undefined;
}

interface Waiter {
  readonly request: AcquireRequest;
  /** The last instant at which the waiter has its place, unless it asks again before. */
  end: number;
}

/** What is stored of a lock. Its Maps keep the order of arrival. */
interface LockRecord {
  readonly key: string;
  /** The phase: how the present holders hold the lock, or the last ones held it. */
  mode: LockMode;
  /** How many may hold it at a time; undefined for a lock without permits. */
  readonly permits: number | undefined;
  holders: Map<string, Holder>;
  readonly waiting: Map<string, Waiter>;
}

export class LockMachine {
  /** One record for each lock that is taken, or has ended and was not settled since. */
  readonly locks = new Map<string, LockRecord>();
  /** The last fence, one for all keys. The scripts keep one for each slot group, which only a Cluster needs. */
  private lastFence = 0;

  constructor(private readonly wake: (wake: Wake) => void) {}

  acquire(request: AcquireRequest, at: Instant): AcquireOutcome {
    const { key, id, replaces, handsOn } = request;
    if (request.takesOver !== undefined) return this.takeOver(request, at);
    const wasThere = replaces === undefined || this.leaveAndSettle({ key, id: replaces, abandoned: replaces === id }, at, handsOn ? request : undefined);
    const answer = this.answer(request, at);
    return wasThere ? answer : { ...answer, replacedLost: true };
  }

  private answer(request: AcquireRequest, at: Instant): AcquireAnswer {
    const lock = this.settle(request.key, at);
    if (lock === undefined) return this.grantNow(request, this.open(request), at);
    const held = holderOf(lock, request.id);
    if (held !== undefined) return granted(lock, held);
    const place = lock.waiting.get(request.id);
    if (place !== undefined) return this.besideOwner(lock, place, at) ?? keepPlace(lock, place, at);
    if (lock.permits !== request.permits) return { kind: 'permits', permits: lock.permits };
    const kin = holdersOwnedBy(lock, request.owner);
    if (kin.length > 0) {
      if (lock.mode === 'read' && request.mode === 'write') return { kind: 'upgrade' };
      return kin.length >= MAX_HOLDS_OF_OWNER ? { kind: 'full' } : this.grantNow(request, lock, at, kin);
    }
    if (mayJoin(lock, request.mode)) return this.grantNow(request, lock, at);
    return request.queue ? this.enqueue(request, lock, at) : { kind: 'busy', retryInMs: nextEnd(lock) - at.ms + 1 };
  }

  /** Puts a request into the place of the holder whose hold it takes. What minHoldMs owes beyond a ticket's time stands as its grace. */
  private takeOver({ key, id, replaces, takesOver, leaseMs, graceMs = 0, label, ticketUntil = Infinity }: AcquireRequest, at: Instant): AcquireAnswer {
    const lock = this.settle(key, at);
    const present = lock && holderOf(lock, id);
    if (present) return takenOver(lock, present, at);
    const holder = lock && holderOf(lock, replaces!);
    if (!holder || (takesOver === 'ticket' && Math.min(ticketUntil, leaseEnd(holder)) < at.ms)) return { kind: 'gone', now: at.ms, memory: undefined };
    const end = Math.max(at.ms + leaseMs, holder.minEnd);
    let heir: Holder = { ...holder, id, end, graceMs: end - at.ms - leaseMs };
    if (takesOver === 'ticket') {
      const kin = holdersOwnedBy(lock, holder.owner).find((other) => other !== holder);
      heir = { ...holder, id, fence: kin?.fence ?? this.reserveFences(1, at), fences: 1, end: end + graceMs, graceMs, label };
    }
    putIn(lock, heir, takesOver === 'beside' ? undefined : holder);
    return takenOver(lock, heir, at);
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
    // What is owed of a minHoldMs ends sooner than the lease of which the next in line was told.
    const [next] = endsWithoutHolder(lock) ? line(lock) : [];
    if (next) this.wake({ kind: 'ask', key, id: next.request.id });
    if (inherits && lock.holders.size < (lock.permits ?? 0)) this.grantNow(heir, lock, at);
    this.settle(key, at);
    return there;
  }

  downgrade(ref: HolderRef, at: Instant): 'downgraded' | 'lost' {
    const lock = this.settle(ref.key, at);
    if (lock === undefined || holderOf(lock, ref.id) === undefined) return 'lost';
    // With other holds of the same owner, which may still write, the lock stays a write lock, which is stricter than needed.
    if (lock.mode === 'write' && lock.permits === undefined && lock.holders.size === 1) {
      lock.mode = 'read';
      this.push(lock, waiters(lock, 'read'), at);
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

  /** The state of the lock. It grants nothing, but drops holders and waiters whose time is over, as every command does. */
  inspect(key: string, at: Instant): LockState {
    const lock = this.locks.get(key);
    if (lock === undefined) return { key, mode: null, holders: [], waiters: [] };
    prune(lock, at.ms);
    const waiters = line(lock).map(({ request: { id, mode, label } }) => ({ id, mode, label }));
    const holders = Array.from(lock.holders.values(), ({ id, fence, owner, label, end, graceMs }) => ({
      id, fence, owner, label, ...untilFree(end - at.ms, graceMs), ...(isTicketId(id) && { handedOff: true as const }),
    }));
    const isHeld = holders.length > 0;
    return { key, mode: isHeld ? lock.mode : null, permits: isHeld ? lock.permits : undefined, holders, waiters };
  }

  /** Settles all locks, and returns when the first of those that are left will end; Infinity when there are none. */
  collect(at: Instant): number {
    let next = Infinity;
    for (const key of this.locks.keys()) {
      const left = this.settle(key, at);
      if (left !== undefined) next = Math.min(next, nextEnd(left));
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
    const lock: LockRecord = { key, mode, permits, holders: new Map(), waiting: new Map() };
    this.locks.set(key, lock);
    return lock;
  }

  private grantNow(request: AcquireRequest, lock: LockRecord, at: Instant, kin: readonly Holder[] = []): AcquireAnswer {
    return granted(lock, this.enter(lock, request, Math.max(request.leaseMs, request.minHoldMs), at, kin));
  }

  /** Grants the lock to waiters and wakes them. Their leases are short until the first renewal, because a waiter may have died. */
  private push(lock: LockRecord, waiters: readonly Waiter[], at: Instant): void {
    const entered = waiters.map((waiter) => {
      lock.mode = waiter.request.mode;
      return this.enterFromQueue(lock, waiter, at, []);
    });
    // The wakes are made after all have entered, because `contended` says whether others still wait then.
    for (const holder of entered) this.wake({ kind: 'granted', key: lock.key, id: holder.id, grant: grantOf(lock, holder) });
  }

  /** Grants to a waiter whose owner was granted the lock after it had queued, but no write beside readers, and no hold above the limit. */
  private besideOwner(lock: LockRecord, place: Waiter, at: Instant): AcquireAnswer | undefined {
    const { mode, owner } = place.request;
    const kin = holdersOwnedBy(lock, owner);
    if (kin.length === 0 || (lock.mode === 'read' && mode === 'write') || kin.length >= MAX_HOLDS_OF_OWNER) return undefined;
    return granted(lock, this.enterFromQueue(lock, place, at, kin));
  }

  private enterFromQueue(lock: LockRecord, { request }: Waiter, at: Instant, kin: readonly Holder[]): Holder {
    return this.enter(lock, request, Math.min(request.leaseMs, FIRST_LEASE_MS), at, kin);
  }

  /** `kin`: the other holders of its owner, with whom it shares their fence. */
  private enter(lock: LockRecord, request: AcquireRequest, lengthMs: number, at: Instant, [kin]: readonly Holder[]): Holder {
    const { id, minHoldMs, graceMs = 0, owner, label } = request;
    const fences = kin ? 1 : request.fences;
    const fence = kin ? kin.fence : this.reserveFences(fences, at);
    const holder = { id, fence, fences, end: at.ms + lengthMs + graceMs, minEnd: at.ms + minHoldMs, graceMs, released: false, owner, label };
    lock.waiting.delete(id);
    lock.holders.set(id, holder);
    return holder;
  }

  private reserveFences(count: number, at: Instant): number {
    const first = Math.max(this.lastFence + 1, at.us);
    this.lastFence = first + count - 1;
    return first;
  }

  private enqueue(request: AcquireRequest, lock: LockRecord, at: Instant): AcquireAnswer {
    const wasContended = isContended(lock);
    const place = { request, end: 0 };
    lock.waiting.set(request.id, place);
    if (!wasContended) {
      for (const holder of lock.holders.values()) if (!holder.released) this.wake({ kind: 'contended', key: lock.key, id: holder.id });
    }
    return keepPlace(lock, place, at);
  }
}

/** Keeps the waiter's place. Only the first in line learns when to ask again, so one question is asked for each lease that ends. */
function keepPlace(lock: LockRecord, place: Waiter, at: Instant): AcquireAnswer {
  place.end = at.ms + WAITER_LEASE_MS;
  return line(lock)[0] === place ? { kind: 'waiting', askAgainInMs: nextEnd(lock) - at.ms + 1 } : { kind: 'waiting' };
}

/** Adds a holder, in the place of another one if there is one: the order of the holders stays. */
function putIn(lock: LockRecord, holder: Holder, replaced: Holder | undefined): void {
  const others = [...lock.holders.values()].map((one) => (one === replaced ? holder : one));
  lock.holders = new Map([...others, holder].map((one) => [one.id, one]));
}

function takenOver(lock: LockRecord, holder: Holder, at: Instant): AcquireAnswer {
  const { owner, minEnd } = holder;
  const taken = { owner, permits: lock.permits, minHoldMs: Math.max(0, minEnd - at.ms), end: leaseEnd(holder) };
  return { kind: 'granted', grant: grantOf(lock, holder), taken };
}

/** Drops holders and waiters whose time is over. An `end` is the last instant at which they still count. */
function prune({ holders, waiting }: LockRecord, now: number): void {
  for (const records of [holders, waiting]) for (const [id, { end }] of records) if (end < now) records.delete(id);
}

/** The holder with this id, if it has not released. */
function holderOf(lock: LockRecord, id: string): Holder | undefined {
  const holder = lock.holders.get(id);
  return holder?.released === true ? undefined : holder;
}

/** The holders of this owner, whose hold its next request may join. Their number is bounded, because the scripts read all of them. */
function holdersOwnedBy(lock: LockRecord, owner: string | undefined): readonly Holder[] {
  return owner === undefined ? [] : [...lock.holders.values()].filter((holder) => holder.owner === owner && !holder.released);
}

function isContended(lock: LockRecord): boolean {
  return lock.waiting.size > 0;
}

/**
 * True if a new request may share a lock that is held: a reader with readers, unless a writer waits; one for a permit when one is
 * free, because those who waited for it have it already.
 */
function mayJoin(lock: LockRecord, mode: LockMode): boolean {
  if (lock.permits !== undefined) return lock.holders.size < lock.permits;
  return mode === 'read' && lock.mode === 'read' && waiters(lock, 'write').length === 0;
}

function waiters(lock: LockRecord, mode: LockMode): readonly Waiter[] {
  return [...lock.waiting.values()].filter(({ request }) => request.mode === mode);
}

/** The waiters in the order in which they will be served, if no other request comes. */
function line(lock: LockRecord): readonly Waiter[] {
  const [readers, writers] = [waiters(lock, 'read'), waiters(lock, 'write')];
  return lock.mode === 'write' ? [...readers, ...writers] : [...writers.slice(0, 1), ...readers, ...writers.slice(1)];
}

/** The waiters whose turn it is now, in a pruned record: none, one writer, all readers that wait, or one for each free permit. */
function whoseTurn(lock: LockRecord): readonly Waiter[] {
  if (!isContended(lock)) return [];
  const inLine = line(lock);
  if (lock.permits !== undefined) return inLine.slice(0, lock.permits - lock.holders.size);
  const isWriter = inLine[0]!.request.mode === 'write';
  // Readers wait while readers hold the lock only because a writer waits. If none does, the writer gave up, and they may enter.
  if (lock.holders.size > 0 && (lock.mode === 'write' || isWriter)) return [];
  return isWriter ? inLine.slice(0, 1) : waiters(lock, 'read');
}

/** The last instant of a holder's lease, before its grace. */
function leaseEnd({ end, graceMs }: Holder): number {
  return end - graceMs;
}

/** What a holder is told that it has. */
function grantOf(lock: LockRecord, holder: Holder): Grant {
  const { fence, fences } = holder;
  return { fence, fences, mode: lock.mode, trustedUntil: leaseEnd(holder), contended: isContended(lock) };
}

function granted(lock: LockRecord, holder: Holder): AcquireAnswer {
  return { kind: 'granted', grant: grantOf(lock, holder) };
}

/** The last instant before somebody can be let in, if no holder renews or releases: of a lock with permits that of the first to end. */
function nextEnd({ holders, permits }: LockRecord): number {
  const ends = Array.from(holders.values(), ({ end }) => end);
  return permits === undefined ? Math.max(...ends) : Math.min(...ends);
}

/** True if what ends next is no lease any more, but the rest of the minHoldMs of a hold that was released. */
function endsWithoutHolder(lock: LockRecord): boolean {
  const end = nextEnd(lock);
  return [...lock.holders.values()].some((holder) => holder.end === end && holder.released);
}

/** True if a holder is meant by this fence. A process may hand a permit on under a fence that was reserved with another of its permits. */
function isMeantBy(lock: LockRecord, { fence: first, fences }: Holder, fence: number): boolean {
  return fence === first || (lock.permits === undefined && fence > first && fence < first + fences);
}

/** Takes an id out of the lock. The lock stays taken for what is left of the holder's minHoldMs, unless its work never began. */
function leave(lock: LockRecord, id: string, now: number, abandoned = false): boolean {
  const holder = holderOf(lock, id);
  if (holder === undefined) return lock.waiting.delete(id);
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
  const [one, other] = [...holders.values()].filter((holder) => holder.released);
  if (one && other) holders.delete(other.end > one.end ? one.id : other.id);
}
