/** The servers that all other tests stand on. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { startMasters, startRedis, type RedisServer } from './redis-server.js';

describe('a Redis server of a test', () => {
  const started: RedisServer[] = [];
  const start = async (...args: string[]) => {
    const server = await startRedis({ args });
    started.push(server);
    return server;
  };

  afterEach(async () => {
    await Promise.all(started.splice(0).map((server) => server.stop()));
  });

  it('serves on 127.0.0.1 and writes nothing by itself', async () => {
    const redis = await start();
    const client = redis.client();
    expect(await client.ping()).toBe('PONG');
    expect(await client.config('GET', 'save')).toEqual(['save', '']);
    expect(await client.config('GET', 'bind')).toEqual(['bind', '127.0.0.1']);
  });

  it('takes arguments that win over ours', async () => {
    const redis = await start('--maxmemory', '3mb');
    expect(await redis.command('CONFIG', 'GET', 'maxmemory')).toEqual(['maxmemory', '3145728']);
  });

  it('comes back on its port without its data', async () => {
    const redis = await start();
    const { pid } = redis;
    await redis.command('SET', 'a', 1);
    await redis.restart({ keepData: false });
    expect(redis.pid).not.toBe(pid);
    expect(await redis.command('GET', 'a')).toBeNull();
  });

  it('comes back with its data when told to', async () => {
    const redis = await start();
    await redis.command('SET', 'a', 1);
    await redis.restart({ keepData: true });
    expect(await redis.command('GET', 'a')).toBe('1');
  });

  it('is down after kill and up after restart', async () => {
    const redis = await start();
    await redis.kill();
    expect(redis.exitCode).toBe(128);
    await expect(redis.command('PING')).rejects.toThrow();
    await redis.restart({ keepData: false });
    expect(await redis.command('PING')).toBe('PONG');
  });

  it('answers nobody while paused, and everybody afterwards', async () => {
    const redis = await start();
    const client = redis.client();
    await client.ping();
    await redis.pause();
    let answered = false;
    const reply = client.ping().then(() => (answered = true));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(answered).toBe(false);
    await redis.resume();
    expect(await reply).toBe(true);
  });

  it('stops though it is paused', async () => {
    const redis = await start();
    await redis.pause();
    await redis.stop();
    expect(redis.exitCode).toBeDefined();
  });

  it('reports why it could not start', async () => {
    await expect(startRedis({ args: ['--no-such-option', 'yes'] })).rejects.toThrow(/no-such-option/);
  });

  it('has as many independent masters as a quorum needs', async () => {
    const masters = await startMasters(5);
    started.push(...masters);
    expect(new Set(masters.map(({ port }) => port)).size).toBe(5);
    for (const master of masters) expect(await master.command('ROLE')).toEqual(['master', expect.any(Number), []]);
  });
});
