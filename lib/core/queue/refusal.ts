/** Makes the error of a caller that did not get its lock, from what the store answered or did not answer. */
import { busyError, givenUpError, outageError, ownerUpgradeError, permitsError, silenceError, ticketError, tooManyHoldsError } from '../port/hold-errors.js';
import type { Call } from './call.js';
import type { Refusal, StoreRequest } from './store-request.js';

/**
 * When a wait is over and the store has not answered for this long, the error says that the store is silent and not that the
 * lock is busy, which nobody knows then. It is the length of the wait within these bounds: below the lower one the answer may
 * only be slow, and the upper one is enough for every wait.
 */
const SILENT_MS = { atLeast: 100, atMost: 500 } as const;

/** Whether the store was silent. 1 ms is allowed for, because timers can fire a fraction of a millisecond early. */
function isSilence(forMs: number, waitMs: number): boolean {
  return forMs > Math.max(SILENT_MS.atLeast, Math.min(waitMs, SILENT_MS.atMost)) - 1;
}

/** The error for an answer of the store that does not grant the lock. */
export function refusalError(refusal: Refusal, { key, ticket, options: { owner, permits, waitMs } }: Call): Error {
  switch (refusal.kind) {
    case 'failed':
      return givenUpError(key, waitMs, refusal.error);
    case 'upgrade':
      return ownerUpgradeError(key, owner);
    case 'full':
      return tooManyHoldsError(key, owner);
    case 'permits':
      return permitsError(key, permits, refusal.permits);
    case 'gone':
      return ticketError(key, ticket!, refusal);
    case 'busy':
      return busyError(key, waitMs);
  }
}

/**
 * The error of a call with waitMs 0: while the store cannot be asked a LockStoreError, because the lock may not be busy at all.
 * `isHeldHere`: whether a call of this process is known to hold the lock.
 */
export function refusedAtOnce(request: StoreRequest | undefined, { key, options: { waitMs } }: Call, isHeldHere?: boolean): Error {
  const failure = request?.lastError;
  return failure ? outageError(key, waitMs, failure) : busyError(key, waitMs, isHeldHere);
}

/** The error of a call whose waitMs is over: a LockStoreError if the store failed or was silent, because the lock may not be busy. */
export function waitedInVain(request: StoreRequest | undefined, call: Call): Error {
  const { key, ticket, options: { waitMs, minReplicas } } = call;
  // A lock that a ticket has is busy for nobody who brings it.
  if (request && (isSilence(request.silentForMs, waitMs) || (ticket && !request.lastError))) return silenceError(key, waitMs, { server: request.server, minReplicas });
  return refusedAtOnce(request, call);
}
