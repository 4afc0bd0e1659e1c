/**
 * What the locks of a fault run guard: a Redis of its own that no fault touches, which accepts a write only with a fence
 * that is not lower than the highest it has seen, and keeps count of what it refused.
 */
import { startRedis, type RedisServer } from '../../support/redis-server.js';

/**
 * A writer must not be lower than anybody, a reader not lower than any writer. Answers the highest fence it compared
 * with, negative when it refused.
 */
export const GUARDED_WRITE = `
local highest = redis.call('HMGET', KEYS[1], 'write', 'any')
local write, any = tonumber(highest[1] or '0'), tonumber(highest[2] or '0')
local fence, limit = tonumber(ARGV[1]), ARGV[2] == 'write' and any or write
if fence < limit then
  redis.call('HINCRBY', KEYS[1], 'refused', 1)
  return string.format('%.0f', -limit)
end
redis.call('HINCRBY', KEYS[1], 'accepted', 1)
if fence > any then redis.call('HSET', KEYS[1], 'any', ARGV[1]) end
if ARGV[2] == 'write' then
  redis.call('HSET', KEYS[1], 'write', ARGV[1])
  redis.call('RPUSH', KEYS[1] .. ':log', ARGV[1])
end
return string.format('%.0f', limit)`;

export interface ResourceState {
  readonly accepted: number;
  readonly refused: number;
  /** Fences of accepted writes that were lower than one accepted before: always empty, or the guard itself is broken. */
  readonly backward: readonly string[];
}

export class FencedResource {
  private constructor(private readonly server: RedisServer) {}

  static async start(): Promise<FencedResource> {
    return new FencedResource(await startRedis());
  }

  get url(): string {
    return this.server.url;
  }

  /** What became of the writes of one run, whose keys begin with `run`. */
  async state(run: string): Promise<ResourceState> {
    const client = this.server.client();
    let accepted = 0;
    let refused = 0;
    const backward: string[] = [];
    for (const key of await client.keys(`${run}:*`)) {
      if (key.endsWith(':log')) {
        const fences = (await client.lrange(key, 0, -1)).map(Number);
        fences.forEach((fence, n) => fence < (fences[n - 1] ?? 0) && backward.push(`${key}: ${fence} after ${fences[n - 1]}`));
        continue;
      }
      const [yes, no] = await client.hmget(key, 'accepted', 'refused');
      accepted += Number(yes ?? 0);
      refused += Number(no ?? 0);
    }
    client.disconnect();
    return { accepted, refused, backward };
  }

  stop(): Promise<void> {
    return this.server.stop();
  }
}
