/** `writeFenced`: writes into a Redis hash, and refuses the write of a holder when a later holder has written already. */
import { LockUsageError } from './core/port/errors.js';
import { show } from './core/port/options.js';
import { fencedWriteCall } from './stores/wire/lua.generated.js';

/** The part of a client of ioredis (Redis or Cluster) or of node-redis that {@link writeFenced} needs. */
export type EvalClient = IoredisEval | NodeRedisEval;

interface IoredisEval {
  eval(script: string, numberOfKeys: number, ...keysAndArguments: (string | number)[]): Promise<unknown>;
}

interface NodeRedisEval {
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  sendCommand(...args: never[]): unknown;
}

/**
 * Writes `fields` and `fence` into the hash at the Redis key `key`, in one script. Resolves to `written`, or to `stale` when
 * a hold with a higher fence has written before: then nothing was changed. The field `fence` belongs to this function.
 * A call with no fields only stores the fence, so that earlier holders can no longer write: do that before you read what you
 * will change. One call can write some 4,000 fields at most.
 *
 *     await writeFenced(redis, 'account:7', lease.fence, { balance: 100 })
 *
 * @throws LockUsageError when `key` is no text, when `fence` is not a positive safe integer, when `fields` has a field named `fence` or a
 * value that is neither a text nor a finite number, or when the client does not answer what the script said, as a pipeline does; the errors
 * of the client
 */
export async function writeFenced(
  client: EvalClient,
  key: string,
  fence: number,
  fields: Readonly<Record<string, string | number>>,
): Promise<'written' | 'stale'> {
  if (typeof key !== 'string' || key === '') throw new LockUsageError(`writeFenced: expected the Redis key of a hash, got ${show(key)}.`);
  if (!Number.isSafeInteger(fence) || fence < 1) throw new LockUsageError(`writeFenced('${key}'): expected the fence of a lease, got ${String(fence)}.`);
  if ('fence' in fields) throw new LockUsageError(`writeFenced('${key}'): the field 'fence' is kept by writeFenced itself.`);
  const unfit = Object.entries(fields).find(([, value]) => typeof value !== 'string' && !Number.isFinite(value));
  if (unfit) throw new LockUsageError(`writeFenced('${key}'): expected the field '${unfit[0]}' to be a text or a finite number, got ${show(unfit[1])}.`);
  const { script, keys, args } = fencedWriteCall({ dataKey: key }, { fence, fields: Object.entries(fields).flat() });
  const written = isNodeRedis(client)
    ? await client.eval(script.source, { keys: [...keys], arguments: args.map(String) })
    : await client.eval(script.source, keys.length, ...keys, ...args);
  // A client may be set to give numbers as texts.
  if (String(written) === '1') return 'written';
  if (String(written) === '0') return 'stale';
  throw new LockUsageError(
    `writeFenced('${key}'): the client answered ${show(written)}, from which nobody can tell whether it wrote. Give it a client, and no pipeline or transaction.`,
  );
}

/** Clients of ioredis have defineCommand. */
function isNodeRedis(client: EvalClient): client is NodeRedisEval {
  return 'sendCommand' in client && !('defineCommand' in client);
}
