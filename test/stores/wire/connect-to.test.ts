/** Which package of clients reaches what is given as `redis`. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { systemClock } from '../../../lib/core/port/clock.js';
import { connectTo } from '../../../lib/stores/wire/connect-to.js';
import { type ClientPackage, type RedisTarget, serverOfUrl } from '../../../lib/stores/wire/redis-target.js';
import { builtPackage } from '../../support/built-package.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

async function packageFor(target: RedisTarget, wanted?: ClientPackage): Promise<ClientPackage> {
  const connections = (await connectTo(target, wanted))(2_000, systemClock);
  await connections.commands.start();
  const { sender } = connections.commands;
  connections.close();
  return sender instanceof Redis ? 'ioredis' : 'redis';
}

describe('A URL or options', () => {
  it.each<[RedisTarget, string]>([
    ['redis://redis.example:7000/3', 'redis.example:7000'],
    ['redis.example:7000', 'redis.example:7000'],
    ['redis://[::1]:7000', '::1:7000'],
    ['7000', 'localhost:7000'],
    ['/run/redis.sock?db=2', '/run/redis.sock'],
    [{ host: 'redis.example' }, 'redis.example:6379'],
    [{ sentinels: [{ host: 'a' }], name: 'orders' }, "the master 'orders' of Sentinel"],
    [{ cluster: ['redis://a:7000'] }, 'the Cluster'],
  ])('%j means the same server with both packages', async (target, name) => {
    for (const client of ['ioredis', 'redis'] as const) {
      const connections = (await connectTo(target, client))(2_000, systemClock);
      expect([client, connections.node, connections.isCluster]).toEqual([client, name, name === 'the Cluster']);
      connections.close();
    }
  });

  it('name the same database with both packages', () => {
    for (const url of ['redis://a/1?db=2', 'redis://a?db=2', 'redis://a/1', '/run/redis.sock?db=2', 'a:7000', '7000']) {
      const { options } = new Redis(url, { lazyConnect: true });
      expect([url, serverOfUrl(url).db ?? 0]).toEqual([url, options.db]);
    }
  });

  it('use ioredis where both packages are installed, unless the option says otherwise', async () => {
    expect(await packageFor(server.url)).toBe('ioredis');
    expect(await packageFor(server.url, 'redis')).toBe('redis');
    expect(await packageFor({ host: '127.0.0.1', port: server.port }, 'redis')).toBe('redis');
  });

  it('are refused with an option of ioredis that says how to connect and that node-redis does not have', async () => {
    await expect(connectTo({ host: 'redis.example', Connector: class {} }, 'redis')).rejects.toMatchObject({ code: 'LOCK_USAGE', message: expect.stringContaining('Connector is an option of ioredis') });
  });
});

describe('A client', () => {
  it('decides itself which package is used', async () => {
    const own = new Redis(server.url, { lazyConnect: true });
    expect(await packageFor(own, 'redis')).toBe('ioredis');
    expect(await packageFor(createClient({ url: server.url }) as unknown as RedisTarget, 'ioredis')).toBe('redis');
    own.disconnect();
  });
});

describe('Where no package of clients is installed', () => {
  it('the error names both, and the one that was wished for', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-no-client-'));
    try {
      await cp(dirname(builtPackage()), folder, { recursive: true });
      const file = pathToFileURL(join(folder, 'stores', 'wire', 'connect-to.js')).href;
      const ask = `import { connectTo } from '${file}'; for (const wanted of [undefined, 'redis']) await connectTo('redis://a', wanted).catch(({ code, message }) => console.log(code, message));`;
      const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', ask], { cwd: folder });
      const [none, wished] = stdout.trim().split('\n');
      expect(none).toMatch(/^LOCK_USAGE .*neither ioredis nor redis \(node-redis\) is installed/);
      expect(wished).toMatch(/^LOCK_USAGE .*client is 'redis', but the package 'redis' is not installed/);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
