/** The guarded resource in Redis: a hash that refuses the write of a holder that came too late. */
import { LockUsageError } from './core/port/errors.js';
import { fencedWrite } from './stores/wire/lua.generated.js';

/** The part of an ioredis client (Redis or Cluster) that {@link writeFenced} needs. */
export interface EvalClient {
  eval(script: string, numberOfKeys: number, ...keysAndArguments: (string | number)[]): Promise<unknown>;
}

/**
 * Writes `fields` into the hash at `key`, with the fence of the hold that wants it beside them, in one step. `stale`: a
 * hold with a higher fence has written before, and nothing was changed. The field `fence` belongs to this function. Without
 * fields it claims the hash: do that before you read what you will write. Some 4,000 fields are the most that fit in a call.
 *
 *     await writeFenced(redis, 'account:7', lease.fence, { balance: 100 })
 *
 * @throws LockUsageError for a fence that is no fence; whatever the client throws
 */
export async function writeFenced(
  client: EvalClient,
  key: string,
  fence: number,
  fields: Readonly<Record<string, string | number>>,
): Promise<'written' | 'stale'> {
  if (!Number.isSafeInteger(fence) || fence < 1) throw new LockUsageError(`writeFenced('${key}'): expected the fence of a lease, got ${String(fence)}.`);
  if ('fence' in fields) throw new LockUsageError(`writeFenced('${key}'): the field 'fence' is kept by writeFenced itself.`);
  const written = await client.eval(fencedWrite.source, 1, key, fence, ...Object.entries(fields).flat());
  return written === 1 ? 'written' : 'stale';
}
