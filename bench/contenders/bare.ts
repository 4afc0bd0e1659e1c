/**
 * Bare: our own scripts, sent by ioredis without the library. The library's share is what lies between this and Holdfast.
 */
import { Redis } from 'ioredis';
import { acquire, acquireText, type LuaScript, readRecall, recallCall, release, releaseText } from '../../lib/stores/wire/lua.generated.js';
import { RedisKeys, type Spot } from '../../lib/stores/wire/redis-keys.js';
import type { Contender } from './contender.js';

const LEASE_MS = 30_000;
/** As many as the local queue reserves. */
const FENCES = 1;
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
    const run = ({ sha1 }: LuaScript, { lockKey, queueKey, fenceKey }: Spot, text: string): Promise<unknown> => redis.evalsha(sha1, 3, lockKey, queueKey, fenceKey, text);
    let sequence = 0;
    /** What the server told as its memory, by fence key. */
    const memories = new Map<string, string>();
    const memoryOf = async (fenceKey: string): Promise<string> => {
      const { script, keys: names, args } = recallCall({ keys: [{ fenceKey: fenceKey }] }, { process: 'p', recoveryMs: 0, groups: [{ floor: 0, holds: false }] });
      const { memory } = readRecall(await redis.eval(script.source, names.length, ...names, ...args)).groups[0]!;
      memories.set(fenceKey, memory);
      return memory;
    };
    return {
      async withLock(key, work) {
        const id = `bare-process.${++sequence}`;
        const spot = keys.spotOf(key);
        const known = memories.get(spot.fenceKey) ?? (await memoryOf(spot.fenceKey));
        const asked = { id, mode: 'write', leaseMs: LEASE_MS, queue: true, needsListener: false, plain: true, takes: 'nothing', notAfter: LONG_FROM_NOW, floor: 0, fences: FENCES, minHoldMs: 0, graceMs: 0, recoveryMs: 0, known } as const;
        const granted = await run(acquire, spot, acquireText(asked));
        await work();
        const released = await run(release, spot, releaseText({ id, mayBeOver: false, floor: 0, abandoned: false, recoveryMs: 0, known }));
        // A script whose arguments have changed may do nothing at all, and fast: then there is nothing to compare with.
        if (released !== 1) throw new Error(`the bare scripts did not hold ${key}: ${String(granted)}, then ${String(released)}`);
      },
      close: async () => redis.disconnect(),
    };
  },
};
