/**
 * Bare: our own scripts, sent by ioredis without the library. The library's share is what lies between this and Holdfast.
 */
import { Redis } from 'ioredis';
import { addAcquire } from '../../lib/stores/wire/acquire-request.js';
import { acquire, recall, release } from '../../lib/stores/wire/lua.generated.js';
import { RedisKeys } from '../../lib/stores/wire/redis-keys.js';
import type { ScriptArgument } from '../../lib/stores/wire/script-runner.js';
import type { Contender } from './contender.js';

const LEASE_MS = 30_000;
/** As many as the local queue reserves. */
const FENCES = 1;
const LONGEST_LEASE_MS = 60_000;
const LONG_FROM_NOW = Date.now() + 86_400_000;

export const bare: Contender = {
  name: 'bare: our scripts alone',
  sends: ['evalsha', 'eval'],
  sendsBesides: 0,
  async open(port) {
    const redis = new Redis({ port, host: '127.0.0.1' });
    const keys = new RedisKeys('bare');
    await redis.script('LOAD', acquire.source);
    await redis.script('LOAD', release.source);
    let sequence = 0;
    /** What the server told as its memory, by fence key. */
    const memories = new Map<string, string>();
    const memoryOf = async (fenceKey: string): Promise<string> => {
      const [, , memory] = (await redis.eval(recall.source, 1, fenceKey, 0, 0)) as [number, number, string];
      memories.set(fenceKey, memory);
      return memory;
    };
    return {
      async withLock(key, work) {
        const id = `bare-process.${++sequence}`;
        const [lockKey, queueKey, fenceKey] = keys.all(keys.groupOf(key), key);
        const known = memories.get(fenceKey) ?? (await memoryOf(fenceKey));
        const args: ScriptArgument[] = [];
        addAcquire(args, { known, id, mode: 'write', leaseMs: LEASE_MS, queue: true, notAfter: LONG_FROM_NOW, floor: 0, fences: FENCES, minHoldMs: 0, recoveryMs: 0, longestMs: LONGEST_LEASE_MS });
        const granted = await redis.evalsha(acquire.sha1, 3, lockKey, queueKey, fenceKey, ...args);
        await work();
        const released = await redis.evalsha(release.sha1, 3, lockKey, queueKey, fenceKey, id, `0 0 0 ${known}`);
        // A script whose arguments have changed may do nothing at all, and fast: then there is nothing to compare with.
        if (released !== 1) throw new Error(`the bare scripts did not hold ${key}: ${String(granted)}, then ${String(released)}`);
      },
      close: async () => redis.disconnect(),
    };
  },
};
