/**
 * A read-write lock as people write it by hand: a hash of the mode and the number of its holders, polled. No peer has one.
 */
import { Redis } from 'ioredis';
import type { Contender, LockUnderTest } from './contender.js';

const TAKE = `
local mode = redis.call('HGET', KEYS[1], 'mode')
if mode and (mode == 'write' or ARGV[1] == 'write') then return 0 end
redis.call('HSET', KEYS[1], 'mode', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'holders', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;
const GIVE_BACK = `
if redis.call('HINCRBY', KEYS[1], 'holders', -1) <= 0 then redis.call('DEL', KEYS[1]) end
return 1`;

export function pollingReadWrite(waitMs: number): Contender {
  return {
    name: `polled hash, every ${waitMs} ms`,
    sends: ['evalsha'],
    sendsBesides: 0,
    async open(port): Promise<LockUnderTest> {
      const redis = new Redis({ port, host: '127.0.0.1' });
      const [take, giveBack] = (await Promise.all([redis.script('LOAD', TAKE), redis.script('LOAD', GIVE_BACK)])) as [string, string];
      const withMode: LockUnderTest['withMode'] = async (mode, key, work) => {
        const redisKey = `polled:${key}`;
        while ((await redis.evalsha(take, 1, redisKey, mode, 30_000)) === 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
        await work();
        await redis.evalsha(giveBack, 1, redisKey);
      };
      return { withMode, withLock: (key, work) => withMode!('write', key, work), close: async () => redis.disconnect() };
    },
  };
}
