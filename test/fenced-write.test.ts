import { beforeAll, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { writeFenced, type EvalClient } from '../lib/fenced-write.js';
import { startRedis } from './support/redis-server.js';
import { forAll } from './support/started.js';

describe('A guarded hash', () => {
  let redis: Redis;

  const server = forAll(startRedis);
  beforeAll(async () => {
    redis = server.client();
  });

  it('takes the writes of one hold and of later ones, and refuses those of an earlier one', async () => {
    // Fences have 16 digits: they must not lose any on their way through Lua.
    const [old, fence, next] = [1_795_233_600_123_456, 1_795_233_600_123_457, 1_795_233_600_123_458];
    expect(await writeFenced(redis, 'account', fence, { balance: 1 })).toBe('written');
    expect(await writeFenced(redis, 'account', fence, { balance: 2, owner: 'me' })).toBe('written');
    expect(await writeFenced(redis, 'account', old, { balance: 3 })).toBe('stale');
    expect(await redis.hgetall('account')).toEqual({ fence: String(fence), balance: '2', owner: 'me' });
    expect(await writeFenced(redis, 'account', next, { balance: 4 })).toBe('written');
    expect(await writeFenced(redis, 'account', fence, { balance: 5 })).toBe('stale');
    expect(await redis.hget('account', 'balance')).toBe('4');
  });

  it('wants a client that answers: a pipeline says nothing of what was written', async () => {
    const pipeline = redis.pipeline() as unknown as EvalClient;
    await expect(writeFenced(pipeline, 'account', 9, { balance: 1 })).rejects.toThrow("writeFenced('account'): the client answered an object");
  });

  it('wants a key, and values: what is missing or no number would stand in the hash as a text', async () => {
    await expect(writeFenced(redis, undefined as unknown as string, 9, { balance: 1 })).rejects.toThrow('writeFenced: expected the Redis key of a hash, got undefined.');
    for (const balance of [NaN, undefined as unknown as number]) {
      const words = `writeFenced('account'): expected the field 'balance' to be a text or a finite number, got ${balance}.`;
      await expect(writeFenced(redis, 'account', 9, { balance })).rejects.toThrow(words);
    }
  });

  it('wants a fence', async () => {
    await expect(writeFenced(redis, 'account', NaN, { balance: 1 })).rejects.toMatchObject({ code: 'LOCK_USAGE' });
    await expect(writeFenced(redis, 'account', 7, { fence: 1 })).rejects.toMatchObject({ code: 'LOCK_USAGE' });
  });
});
