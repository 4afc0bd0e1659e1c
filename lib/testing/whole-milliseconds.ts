/**
 * Makes leases in the embedded store end at their last millisecond. On Redis, and so in the embedded store, a lease has ended when
 * its last millisecond is over; but a test that lets 30 s pass means that a lease of 30 s has ended then.
 *
 * The clock of a test goes in whole milliseconds, so each length is made half a millisecond shorter: the store's `end < now` then
 * means `end <= now`. Replies are rounded to whole milliseconds again, so no lease is trusted when the store has ended it.
 *
 * Requests also go without their `minReplicas`, because the embedded store has no replicas and would refuse them.
 */
import type { HolderState, LockState } from '../core/port/lock-state.js';
import type { AcquireOutcome, AcquireRequest, Grant, RenewOutcome, RenewRequest } from '../core/port/lock-store.js';

export const HALF_MS = 0.5;

/** The request with shorter times and without replicas. It is a Proxy and not a copy, because a request may be an object of a class with getters. */
export function endingWith(request: AcquireRequest): AcquireRequest {
  return instead(request, { leaseMs: request.leaseMs - HALF_MS, minHoldMs: Math.max(0, request.minHoldMs - HALF_MS), minReplicas: 0 });
}

export function renewalEndingWith(request: RenewRequest): RenewRequest {
  return instead(request, { leaseMs: request.leaseMs - HALF_MS, minReplicas: 0 });
}

function instead<Request extends object>(request: Request, changed: Partial<Request>): Request {
  return new Proxy(request, {
    get: (_request, name) => (Object.hasOwn(changed, name) ? Reflect.get(changed, name) : Reflect.get(request, name)),
  });
}

export function wholeGrant(grant: Grant): Grant {
  return { ...grant, trustedUntil: Math.ceil(grant.trustedUntil) };
}

/** The outcome of a request in whole milliseconds. `askAgainInMs` is rounded down, so that it is the end of the lease. */
export function wholeAnswer(outcome: AcquireOutcome): AcquireOutcome {
  if (outcome.kind === 'granted') return { ...outcome, grant: wholeGrant(outcome.grant) };
  if (outcome.kind !== 'waiting' || outcome.askAgainInMs === undefined) return outcome;
  return { ...outcome, askAgainInMs: Math.floor(outcome.askAgainInMs) };
}

export function wholeRenewal(outcome: RenewOutcome): RenewOutcome {
  return outcome.kind === 'renewed' ? { ...outcome, trustedUntil: Math.ceil(outcome.trustedUntil) } : outcome;
}

export function wholeState(state: LockState): LockState {
  return { ...state, holders: state.holders.map((holder) => ({ ...holder, ...whole(holder) })) };
}

function whole({ remainingMs, graceMs }: HolderState): Pick<HolderState, 'remainingMs' | 'graceMs'> {
  return graceMs === undefined ? { remainingMs: Math.ceil(remainingMs) } : { remainingMs: Math.ceil(remainingMs), graceMs: Math.ceil(graceMs) };
}
