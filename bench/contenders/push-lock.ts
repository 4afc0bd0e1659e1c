/**
 * Minimal push locks: a release hands the lock straight to the next in line. No lease, no heartbeat, no fence: a crash
 * blocks the key for ever, so nobody can use them, but nothing that pushes can hand over with less.
 */
import { Redis } from 'ioredis';
import type { Contender } from './contender.js';

const ASK = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX') then return 1 end
redis.call('RPUSH', KEYS[2], ARGV[1])
return 0`;
const HAND_OVER = `
local next = redis.call('LPOP', KEYS[2])
if not next then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], next)
redis.call('PUBLISH', string.match(next, '^[^.]+'), next)
return 1`;

/** A queue in Redis and one channel a process, as in Holdfast. */
export const publishLock: Contender = {
  name: 'minimal push lock',
  sends: ['evalsha'],
  sendsBesides: 0,
  async open(port) {
    const redis = new Redis({ port, host: '127.0.0.1' });
    const subscriber = redis.duplicate();
    const [ask, handOver] = (await Promise.all([redis.script('LOAD', ASK), redis.script('LOAD', HAND_OVER)])) as [string, string];
    const channel = `push-${process.pid}-${Math.random().toString(36).slice(2)}`;
    const granted = new Map<string, () => void>();
    let sequence = 0;
    subscriber.on('message', (_, id: string) => granted.get(id)?.());
    await subscriber.subscribe(channel);
    return {
      async withLock(key, work) {
        const id = `${channel}.${++sequence}`;
        const pushed = new Promise<void>((resolve) => granted.set(id, resolve));
        if ((await redis.evalsha(ask, 2, `push:${key}`, `push:${key}:queue`, id)) === 0) await pushed;
        granted.delete(id);
        await work();
        await redis.evalsha(handOver, 2, `push:${key}`, `push:${key}:queue`);
      },
      async close() {
        redis.disconnect();
        subscriber.disconnect();
      },
    };
  },
};

/** A list with one element: whoever pops it holds the lock. Redis keeps the order; every caller blocks a connection. */
export const blockingPopLock: Contender = {
  name: 'BLPOP, a connection a caller',
  sends: ['blpop', 'rpush'],
  sendsBesides: 0,
  async open(port) {
    const redis = new Redis({ port, host: '127.0.0.1' });
    const idle: Redis[] = [];
    const all: Redis[] = [redis];
    const made = new Set<string>();
    const dial = (): Redis => {
      const connection = redis.duplicate();
      all.push(connection);
      return connection;
    };
    return {
      async withLock(key, work) {
        const connection = idle.pop() ?? dial();
        if (!made.has(key)) {
          made.add(key);
          if ((await redis.set(`pop:${key}:made`, 1, 'NX')) === 'OK') await redis.rpush(`pop:${key}`, 1);
        }
        await connection.blpop(`pop:${key}`, 0);
        idle.push(connection);
        await work();
        await redis.rpush(`pop:${key}`, 1);
      },
      close: async () => all.forEach((connection) => connection.disconnect()),
    };
  },
};
