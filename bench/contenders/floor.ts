/**
 * The floor: ioredis sends one script that takes a string key and one that compares and deletes it. No fence, no queue,
 * no renewal; nothing on Redis can be cheaper and still be safe to release.
 */
import { Redis } from 'ioredis';
import type { Contender } from './contender.js';

const TAKE = `return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`;
const GIVE_BACK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export const floor: Contender = {
  name: 'floor',
  sends: ['evalsha'],
  sendsBesides: 0,
  async open(port) {
    const redis = new Redis({ port, host: '127.0.0.1' });
    const take = (await redis.script('LOAD', TAKE)) as string;
    const giveBack = (await redis.script('LOAD', GIVE_BACK)) as string;
    let sequence = 0;
    return {
      async withLock(key, work) {
        const id = `process.${++sequence}`;
        const redisKey = `floor:${key}`;
        if ((await redis.evalsha(take, 1, redisKey, id, 30_000)) === null) throw new Error(`the floor does not wait, and ${key} is busy`);
        await work();
        await redis.evalsha(giveBack, 1, redisKey, id);
      },
      async hold(key, leaseMs) {
        const id = `process.${++sequence}`;
        await redis.evalsha(take, 1, `floor:${key}`, id, leaseMs);
        return async () => void (await redis.evalsha(giveBack, 1, `floor:${key}`, id));
      },
      close: async () => redis.disconnect(),
    };
  },
};
