/**
 * Bare: our own scripts, sent by ioredis without the library. The library's share is what lies between this and Holdfast.
 */
import { Redis } from 'ioredis';
import { acquire, acquireCall, recallCall, release, releaseCall, type BuiltCall } from '../../lib/stores/wire/lua.generated.js';
import { RedisKeys } from '../../lib/stores/wire/redis-keys.js';
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
    const run = ({ script, keys: names, args }: BuiltCall): Promise<unknown> => redis.evalsha(script.sha1, names.length, ...names, ...args);
    let sequence = 0;
    /** What the server told as its memory, by fence key. */
    const memories = new Map<string, string>();
    const memoryOf = async (fenceKey: string): Promise<string> => {
      const { script, keys: names, args } = recallCall({ keys: [{ fenceKey: fenceKey }] }, { process: 'p', recoveryMs: 0, groups: [{ floor: 0, holds: false }] });
      const [, , memory] = (await redis.eval(script.source, names.length, ...names, ...args)) as [number, number, string];
      memories.set(fenceKey, memory);
      return memory;
    };
    return {
      async withLock(key, work) {
        const id = `bare-process.${++sequence}`;
        const spot = keys.spotOf(key);
        const known = memories.get(spot.fenceKey) ?? (await memoryOf(spot.fenceKey));
        const asked = { id, mode: 'write', leaseMs: LEASE_MS, queue: true, needsListener: false, plain: true, takes: 'nothing', notAfter: LONG_FROM_NOW, floor: 0, fences: FENCES, minHoldMs: 0, graceMs: 0, recoveryMs: 0, known, longestMs: LONGEST_LEASE_MS } as const;
        const granted = await run(acquireCall(spot, asked));
        await work();
        const released = await run(releaseCall(spot, { id, mayBeOver: false, floor: 0, abandoned: false, recoveryMs: 0, known }));
        // A script whose arguments have changed may do nothing at all, and fast: then there is nothing to compare with.
        if (released !== 1) throw new Error(`the bare scripts did not hold ${key}: ${String(granted)}, then ${String(released)}`);
      },
      close: async () => redis.disconnect(),
    };
  },
};
