/** Which package of clients reaches what is given as `redis`. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { createClient } from 'redis';
import { systemClock } from '../../../lib/core/port/clock.js';
import { connectTo } from '../../../lib/stores/wire/connect-to.js';
import type { Connections } from '../../../lib/stores/wire/connections.js';
import { byIoredis, type IoredisPackage } from '../../../lib/stores/wire/ioredis.js';
import { byNodeRedis } from '../../../lib/stores/wire/node-redis.js';
import { type ClientPackage, type RedisTarget, serverOfUrl } from '../../../lib/stores/wire/redis-target.js';
import { builtPackage } from '../../support/built-package.js';
import { eventually } from '../../support/eventually.js';
import { FakeClock } from '../../support/fake-clock.js';
import { startRedis } from '../../support/redis-server.js';
import { connectBy } from '../../support/test-client.js';
import { forAll } from '../../support/started.js';

const server = forAll(startRedis);

async function packageFor(target: RedisTarget, wanted?: ClientPackage): Promise<ClientPackage> {
  const connections = (await connectTo(target, wanted))(2_000, systemClock);
  await connections.commands.start();
  const { sender } = connections.masters()[0]!;
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
      expect(wished).toMatch(/^LOCK_USAGE .*client is 'redis', but the package 'redis' cannot be loaded from here/);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

/** What the clients of our connections are made with, and how these end; the rest is tested with the stores that use them. */
const PACKAGES: readonly ClientPackage[] = ['ioredis', 'redis'];

class Kept extends Error {
  constructor(readonly options: unknown) {
    super('kept');
  }
}

const KEEPING = {
  Redis: class {
    constructor(options: RedisOptions) {
      throw new Kept(options);
    }
  },
} as unknown as IoredisPackage;

async function madeWith(connections: Connections): Promise<unknown> {
  const error = await new Promise((resolve) => {
    connections.commands.events.on('problem', resolve);
    connections.commands.start().catch(() => {});
  });
  connections.close();
  if (!(error instanceof Kept)) throw new Error('no client was made', { cause: error });
  return error.options;
}

/** The options with which ioredis makes the client of a connection to this target. */
const byOptions = (target: RedisTarget): Promise<unknown> => madeWith(byIoredis(target, KEEPING)(2_000, systemClock));

const UNWANTED = {
  keyPrefix: 'app:', enableOfflineQueue: true, stringNumbers: true, readOnly: true, commandTimeout: 1, lazyConnect: false,
  connectTimeout: 200, enableAutoPipelining: true, connectionName: 'other', scripts: { get: { lua: 'return 1', numberOfKeys: 1 } }, retryStrategy: () => 1,
} as const;

const FORCED = {
  keyPrefix: '', enableOfflineQueue: false, stringNumbers: false, readOnly: false, commandTimeout: undefined, lazyConnect: true,
  // Whatever is sent before a connection is ready keeps some versions of ioredis from ever being connected.
  connectTimeout: 0, enableAutoPipelining: false, connectionName: undefined, disableClientInfo: true, scripts: undefined, retryStrategy: null,
};

describe('A URL', () => {
  it.each<[string, RedisOptions]>([
    ['redis://user:p%40ss@redis.example:7000/3', { host: 'redis.example', port: 7000, db: 3, username: 'user', password: 'p@ss' }],
    ['redis://:secret@redis.example', { host: 'redis.example', password: 'secret' }],
    ['redis://redis.example?db=2&family=6', { host: 'redis.example', db: 2, family: 6 }],
    ['redis://[::1]:7000', { host: '::1', port: 7000 }],
    ['redis.example:7000', { host: 'redis.example', port: 7000 }],
    ['/run/redis.sock?db=2', { path: '/run/redis.sock', db: 2 }],
    ['rediss://redis.example', { tls: {} }],
  ])('is understood: %s', async (url, expected) => expect(await byOptions(url)).toMatchObject(expected));

  it('asks for TLS by its scheme only', async () => expect(await byOptions('redis://redis.example')).not.toHaveProperty('tls'));
});

describe('What has to be as it is', () => {
  it('is changed by no option, of one server or of the nodes of a Cluster', async () => {
    expect(await byOptions({ host: 'redis.example', ...UNWANTED })).toMatchObject({ host: 'redis.example', ...FORCED });
    expect(await byOptions({ cluster: ['redis://redis.example'], options: { redisOptions: { ...UNWANTED, db: 3 } } })).toMatchObject({ host: 'redis.example', db: 0, ...FORCED });
  });

  it("is changed by no option of an application's own client, which stays as it is", async () => {
    const own = new Redis({ ...UNWANTED, host: 'redis.example', lazyConnect: true });
    own.duplicate = (options) => {
      throw new Kept(options);
    };
    expect(await madeWith(byIoredis(own)(2_000, systemClock))).toMatchObject({ host: 'redis.example', ...FORCED });
    const cluster = new Cluster([{ host: 'redis.example', port: 7000 }], { keyPrefix: 'app:', redisOptions: UNWANTED, lazyConnect: true });
    expect(await madeWith(byIoredis(cluster, KEEPING)(2_000, systemClock))).toMatchObject({ host: 'redis.example', port: 7000, ...FORCED });
    expect([own.options.keyPrefix, own.status, cluster.options.keyPrefix, cluster.status]).toEqual(['app:', 'wait', 'app:', 'wait']);
    own.disconnect();
    cluster.disconnect();
  });

  it('refuses SRV records, which would lead elsewhere than the nodes that are named', () => {
    const options = { useSRVRecords: true };
    expect(() => byIoredis({ cluster: ['redis://redis.example'], options }, KEEPING)).toThrow('useSRVRecords');
    expect(() => byNodeRedis({ cluster: ['redis://redis.example'], options }, () => ({}) as never)).toThrow('useSRVRecords');
  });
});

describe.each(PACKAGES)('A connection by %s', (client) => {
  it('is found in CLIENT LIST by its name, that of messages as well', async () => {
    const server = await startRedis();
    const connections = connectBy(server.url, client)(2_000, systemClock);
    const subscriber = connections.subscribe({ channels: ['channel'], hear: () => {} });
    await Promise.all([connections.commands.start(), subscriber.start()]);
    await eventually(async () => expect(String(await server.command('CLIENT', 'LIST')).match(/ name=nestjs-holdfast /g)).toHaveLength(2));
    subscriber.close();
    connections.close();
    await server.stop();
  });

  it('that was cut is made again, until the store is closed: then it keeps no timer', async () => {
    const server = await startRedis();
    const clock = new FakeClock();
    const connections = connectBy(server.url, client)(2_000, clock);
    await connections.commands.start();
    const cut = async (): Promise<void> => {
      const ended = new Promise<void>((resolve) => connections.commands.events.on('end', () => resolve()));
      await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await ended;
    };
    await cut();
    expect(clock.pendingTimers).toBe(1);
    const open = new Promise<void>((resolve) => connections.commands.events.on('open', resolve));
    await clock.advance(1_000);
    await open;
    expect(await connections.masters()[0]!.sender.call('ping')).toBe('PONG');
    await cut();
    connections.close();
    expect(clock.pendingTimers).toBe(0);
    await server.stop();
  });

  it('is not made when it is closed while its login is asked for', async () => {
    const server = await startRedis();
    let answer: (login: { password: string }) => void = () => {};
    const credentials = () => new Promise<{ password: string }>((resolve) => (answer = resolve));
    const connections = connectBy({ host: '127.0.0.1', port: server.port, credentials }, client)(2_000, systemClock);
    const connecting = connections.commands.start();
    await eventually(() => expect(answer.length).toBe(1));
    connections.close();
    answer({ password: 'p' });
    await expect(connecting).rejects.toThrow('Connection is closed');
    expect(String(await server.command('CLIENT', 'LIST'))).not.toContain('nestjs-holdfast');
    await server.stop();
  });
});
