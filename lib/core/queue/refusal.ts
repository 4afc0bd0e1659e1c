/** Why the store did not grant a lock, in words for the caller that asked. */
import { busyError, givenUpError, ownerUpgradeError, tooManyHoldsError } from '../port/hold-errors.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Answer } from './request-parts.js';

export type Refusal = Exclude<Answer, { kind: 'granted' | 'gone' }>;

export function refusal(key: string, answer: Refusal, { owner, waitMs }: ResolvedOptions): Error {
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
