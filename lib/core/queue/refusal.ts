/** Why a caller did not get a lock, in words for it. */
import { busyError, givenUpError, isSilence, outageError, ownerUpgradeError, silenceError, tooManyHoldsError } from '../port/hold-errors.js';
import type { StoreLease } from '../lease/store-lease.js';
import type { Caller } from './caller.js';
import type { Answer } from './request-parts.js';
import type { StoreRequest } from './store-request.js';

export type Refusal = Exclude<Answer, { kind: 'granted' | 'gone' }>;

/** The store answered the caller's request, and did not grant the lock. */
export function refusal(answer: Refusal, { wish: { key }, options: { owner, waitMs } }: Caller<StoreLease>): Error {
  switch (answer.kind) {
    case 'failed':
      return givenUpError(key, waitMs, answer.error);
    case 'upgrade':
      return ownerUpgradeError(key, owner);
    case 'full':
      return tooManyHoldsError(key, owner);
    case 'busy':
      return busyError(key, waitMs);
  }
}

/** The caller does not wait. While the store cannot be asked, nobody knows whether the lock is busy. */
export function refusedAtOnce(request: StoreRequest | undefined, { wish: { key }, options: { waitMs } }: Caller<StoreLease>): Error {
  const failure = request?.lastError;
  return failure ? outageError(key, waitMs, failure) : busyError(key, waitMs);
}

/** The caller's time to wait is over. When the store failed or was silent all the while, nobody knows whether the lock is busy. */
export function waitedInVain(request: StoreRequest | undefined, caller: Caller<StoreLease>): Error {
  const { wish: { key }, options: { waitMs } } = caller;
  if (request && !request.lastError && isSilence(request.silentForMs, waitMs)) return silenceError(key, waitMs);
  return refusedAtOnce(request, caller);
}
