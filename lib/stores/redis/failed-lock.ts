/** One lock of several in a command, for which alone the server did nothing: because it refused one of its Redis keys, for example. */
import type { LockStoreError } from '../../core/port/errors.js';
import type { LockSpot } from '../wire/redis-keys.js';
import { storeFailure } from '../wire/store-failure.js';

/** `queueKey` and `fenceKey` are left out where the command does not have them. */
type KeysInCommand = Pick<LockSpot, 'key' | 'lockKey'> & Partial<LockSpot>;

/** Its outcome. `words` say why, and `what` is the name of the command. */
export function failedLock(words: string, what: string, node: string, { key, lockKey, queueKey, fenceKey }: KeysInCommand): { readonly kind: 'unknown'; readonly cause: LockStoreError } {
  const redisKeys = [lockKey, queueKey, fenceKey].filter((redisKey) => redisKey !== undefined);
  return { kind: 'unknown', cause: storeFailure(new Error(words), { what, key, node, redisKeys }) };
}
