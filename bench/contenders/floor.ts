/**
 * The floor: a client sends one script that takes a string key and one that compares and deletes it. No fence, no queue,
 * no renewal; nothing on Redis can be cheaper and still be safe to release.
 */
import { Cluster, Redis } from 'ioredis';
import { createClient } from 'redis';
import { BENCH_CLIENT } from '../harness/bench-client.js';
import type { Contender } from './contender.js';

const TAKE = `return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`;
const GIVE_BACK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

interface Sends {
  load(script: string): Promise<string>;
  run(sha1: string, redisKey: string, ...args: string[]): Promise<unknown>;
  close(): void;
}

function byIoredis(port: number): Sends {
  const redis = new Redis({ port, host: '127.0.0.1' });
  return {
    load: async (script) => (await redis.script('LOAD', script)) as string,
    run: (sha1, redisKey, ...args) => redis.evalsha(sha1, 1, redisKey, ...args),
    close: () => redis.disconnect(),
  };
}

/** Without the time limit of a command, which costs a timer for each: Holdfast's connections have none either. */
async function byNodeRedis(port: number): Promise<Sends> {
  const redis = createClient({ socket: { port, host: '127.0.0.1' }, commandOptions: { timeout: 0 } });
  await redis.connect();
  return {
    load: (script) => redis.scriptLoad(script),
    run: (sha1, redisKey, ...args) => redis.sendCommand(['EVALSHA', sha1, '1', redisKey, ...args]),
    close: () => redis.destroy(),
  };
}

/** Over the masters of a Cluster, of which any tells the others. */
async function byIoredisCluster(port: number): Promise<Sends> {
  const cluster = new Cluster([{ port, host: '127.0.0.1' }]);
  await cluster.ping();
  return {
    load: async (script) => (await Promise.all(cluster.nodes('master').map((node) => node.script('LOAD', script))))[0] as string,
    run: (sha1, redisKey, ...args) => cluster.evalsha(sha1, 1, redisKey, ...args),
    close: () => cluster.disconnect(),
  };
}

const connect = async (port: number): Promise<Sends> => (BENCH_CLIENT === 'redis' ? byNodeRedis(port) : byIoredis(port));

const floorBy = (name: string, by: (port: number) => Promise<Sends>): Contender => ({
  name,
  sends: ['evalsha'],
  sendsBesides: 0,
  async open(port) {
    const redis = await by(port);
    const take = await redis.load(TAKE);
    const giveBack = await redis.load(GIVE_BACK);
    let sequence = 0;
    return {
      async withLock(key, work) {
        const id = `process.${++sequence}`;
        const redisKey = `floor:${key}`;
        if ((await redis.run(take, redisKey, id, '30000')) === null) throw new Error(`the floor does not wait, and ${key} is busy`);
        await work();
        await redis.run(giveBack, redisKey, id);
      },
      async hold(key, leaseMs) {
        const id = `process.${++sequence}`;
        await redis.run(take, `floor:${key}`, id, String(leaseMs));
        return async () => void (await redis.run(giveBack, `floor:${key}`, id));
      },
      close: async () => redis.close(),
    };
  },
});

export const floor = floorBy('floor', connect);
export const floorOnCluster = floorBy('floor on a Cluster', byIoredisCluster);
