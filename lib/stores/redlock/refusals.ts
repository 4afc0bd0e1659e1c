/** Why a Redlock asks none of its nodes for a lock. */
import { LockStoreError } from '../../core/port/errors.js';
import type { AcquireRequest } from '../../core/port/lock-store.js';

/** The error for a request that nothing is asked for; undefined when the nodes can be asked. */
export function refusalOf({ key, minReplicas, notAfter }: AcquireRequest, isClosed: boolean, now: number): LockStoreError | undefined {
  if (isClosed) return new LockStoreError(`Lock '${key}': it was asked for after the store was closed.`, { key, retryable: false });
  if (minReplicas > 0) return noReplicas(key);
  if (now <= notAfter) return undefined;
  const message = `Lock '${key}': the request began only after its time limit, and was not sent to any node.`;
  return new LockStoreError(`${message} It is safe to try again.`, { key });
}

export function noReplicas(key: string): LockStoreError {
  const message = `Lock '${key}': minReplicas cannot be counted on a Redlock, whose nodes are independent masters. Leave it out.`;
  return new LockStoreError(message, { key, retryable: false });
}
