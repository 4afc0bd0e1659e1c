/**
 * What the lock machine does for tickets: a ticket takes the place of a holder, and a new holder takes the place of the ticket. Like a
 * renewal, a hand-off does not settle the lock: the lock is taken before and after, and nobody is let in.
 */
import type { AdoptedHold, AdoptOutcome, AdoptRequest, HandedHold, HandOffOutcome, HandOffRequest } from '../../core/port/ticket-store.js';
import { grantOf, holderOf, leaseEnd, type Holder, type LockRecord } from './lock-record.js';
import type { Instant, Late } from './machine-time.js';

type LockOf = (key: string) => LockRecord | undefined;

export function handOff({ ticketId, withinMs, holds, notAfter }: HandOffRequest, at: Instant, lockOf: LockOf): HandOffOutcome | Late {
  if (at.ms > notAfter) return { kind: 'late' };
  let until = at.ms + withinMs;
  for (const { key, id } of holds) {
    const ticket = liveHolder(lockOf(key), ticketId, at);
    if (ticket === undefined && liveHolder(lockOf(key), id, at) === undefined) return { kind: 'lost', key };
    if (ticket !== undefined) until = leaseEnd(ticket);
  }
  for (const hold of holds) {
    const lock = lockOf(hold.key)!;
    if (liveHolder(lock, ticketId, at) === undefined) giveTo(ticketId, until, lock, hold);
  }
  return { kind: 'handedOff', until };
}

/** The lock stays taken for what minHoldMs owes. What of that lies beyond the ticket's time stands as its grace: nobody adopts it then. */
function giveTo(ticketId: string, until: number, lock: LockRecord, { id, stays }: HandedHold): void {
  const holder = holderOf(lock, id)!;
  const end = Math.max(until, holder.minEnd);
  const ticket: Holder = { ...holder, id: ticketId, end, graceMs: end - until };
  if (stays) lock.holders.set(ticketId, ticket);
  else replace(lock, id, ticket);
}

export function adopt(request: AdoptRequest, at: Instant, lockOf: LockOf, nextFence: () => number): AdoptOutcome | Late {
  if (at.ms > request.notAfter) return { kind: 'late' };
  for (const { key, id } of request.holds) {
    const lock = lockOf(key);
    if (liveHolder(lock, id, at) !== undefined) continue;
    const ticket = liveHolder(lock, request.ticketId, at);
    if (ticket === undefined || Math.min(request.until, leaseEnd(ticket)) < at.ms) return { kind: 'gone', key, now: at.ms, memory: undefined };
  }
  return { kind: 'adopted', holds: request.holds.map(({ key, id }) => adoptOne(request, id, lockOf(key)!, at, nextFence)) };
}

function adoptOne({ ticketId, leaseMs, graceMs, label }: AdoptRequest, id: string, lock: LockRecord, at: Instant, nextFence: () => number): AdoptedHold {
  const present = liveHolder(lock, id, at);
  if (present !== undefined) return adoptionOf(lock, present, at);
  const ticket = holderOf(lock, ticketId)!;
  const fence = sharedFence(lock, ticket, at) ?? nextFence();
  const holder: Holder = { ...ticket, id, fence, fences: 1, end: Math.max(at.ms + leaseMs, ticket.minEnd) + graceMs, graceMs, label };
  replace(lock, ticketId, holder);
  return adoptionOf(lock, holder, at);
}

/** The fence that the ticket shares with other holds of its owner. */
function sharedFence(lock: LockRecord, ticket: Holder, at: Instant): number | undefined {
  if (ticket.owner === undefined) return undefined;
  for (const other of lock.holders.values()) {
    if (other !== ticket && other.owner === ticket.owner && !other.released && other.end >= at.ms) return other.fence;
  }
  return undefined;
}

function adoptionOf(lock: LockRecord, holder: Holder, at: Instant): AdoptedHold {
  const { owner, minEnd } = holder;
  return { grant: grantOf(lock, holder), owner, permits: lock.permits, minHoldMs: Math.max(0, minEnd - at.ms) };
}

function liveHolder(lock: LockRecord | undefined, id: string, at: Instant): Holder | undefined {
  const holder = lock && holderOf(lock, id);
  return holder !== undefined && holder.end >= at.ms ? holder : undefined;
}

/** Puts a holder into the place of another one: the order of the holders stays. */
function replace({ holders }: LockRecord, id: string, holder: Holder): void {
  const all = [...holders.values()];
  holders.clear();
  for (const one of all) holders.set(...(one.id === id ? ([holder.id, holder] as const) : ([one.id, one] as const)));
}
