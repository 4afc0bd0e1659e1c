/**
 * Makes the embedded store end what it keeps *with* the last millisecond. On Redis, and so in that store, a lease is there
 * until that millisecond is over; a test that lets 30 s pass means that what lasts 30 s is over then.
 *
 * The clock of a test goes in whole milliseconds, so half a one less is over with the last: `end < now` becomes `end <= now`.
 * On the way back the ends are whole again, and nobody trusts a lease at an instant at which the store has ended it.
 */
import type { AcquireOutcome, AcquireRequest, Grant, HeartbeatOutcome, LockState, RenewOutcome, RenewRequest } from '../core/port/lock-store.js';

const HALF_MS = 0.5;

/** A request may be an object of a class, so it is kept as it is behind what differs. */
export function endingWith(request: AcquireRequest): AcquireRequest {
  return instead(request, { leaseMs: request.leaseMs - HALF_MS, minHoldMs: Math.max(0, request.minHoldMs - HALF_MS) });
}

export function renewalEndingWith(request: RenewRequest): RenewRequest {
  return instead(request, { leaseMs: request.leaseMs - HALF_MS });
}

function instead<Request extends object>(request: Request, changed: Partial<Request>): Request {
  return new Proxy(request, {
    get: (_request, name) => (Object.hasOwn(changed, name) ? Reflect.get(changed, name) : Reflect.get(request, name)),
  });
}

export function wholeGrant(grant: Grant): Grant {
  return { ...grant, trustedUntil: Math.ceil(grant.trustedUntil) };
}

/** Of a request or of a heartbeat. Who is told to ask again when a lease ends asks with its end. */
export function wholeAnswer<Outcome extends AcquireOutcome | HeartbeatOutcome>(outcome: Outcome): Outcome {
  if (outcome.kind === 'granted') return { ...outcome, grant: wholeGrant(outcome.grant) };
  if (outcome.kind !== 'waiting' || outcome.askAgainInMs === undefined) return outcome;
  return { ...outcome, askAgainInMs: Math.floor(outcome.askAgainInMs) };
}

export function wholeRenewal(outcome: RenewOutcome): RenewOutcome {
  return outcome.kind === 'renewed' ? { ...outcome, trustedUntil: Math.ceil(outcome.trustedUntil) } : outcome;
}

export function wholeState(state: LockState): LockState {
  return { ...state, holders: state.holders.map((holder) => ({ ...holder, remainingMs: Math.ceil(holder.remainingMs) })) };
}
