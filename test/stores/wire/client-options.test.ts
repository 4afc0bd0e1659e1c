/** What the clients of our connections are made with, and how these end; the rest is tested with the stores that use them. */
import { describe, expect, it } from '@jest/globals';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { Connections } from '../../../lib/stores/wire/connections.js';
import { byIoredis, type IoredisPackage } from '../../../lib/stores/wire/ioredis.js';
import { byNodeRedis } from '../../../lib/stores/wire/node-redis.js';
import type { ClientPackage, RedisTarget } from '../../../lib/stores/wire/redis-target.js';
import { eventually } from '../../support/eventually.js';
import { FakeClock } from '../../support/fake-clock.js';
import { startRedis } from '../../support/redis-server.js';
import { connectBy } from '../../support/test-client.js';

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
    connections.commands.onError(resolve);
    connections.commands.start().catch(() => {});
  });
  connections.close();
  if (!(error instanceof Kept)) throw new Error('no client was made', { cause: error });
  return error.options;
}

/** The options with which ioredis makes the client of a connection to this target. */
const byOptions = (target: RedisTarget): Promise<unknown> => madeWith(byIoredis(target, KEEPING)(2_000, systemClock));

const UNWANTED = {
  keyPrefix: 'app:', enableOfflineQueue: true, maxRetriesPerRequest: 20, stringNumbers: true, readOnly: true, commandTimeout: 1, lazyConnect: false,
  connectTimeout: 60_000, enableAutoPipelining: true, connectionName: 'other', scripts: { get: { lua: 'return 1', numberOfKeys: 1 } }, retryStrategy: () => 1,
} as const;
const FORCED = {
  keyPrefix: '', enableOfflineQueue: false, maxRetriesPerRequest: 0, stringNumbers: false, readOnly: false, commandTimeout: undefined, lazyConnect: true,
  // Whatever is sent before a connection is ready keeps some versions of ioredis from ever being connected.
  connectTimeout: 1_000, enableAutoPipelining: false, connectionName: undefined, disableClientInfo: true, scripts: undefined, retryStrategy: null,
};

describe('A URL', () => {
  it.each<[string, RedisOptions]>([
    ['redis://user:p%40ss@redis.example:7000/3', { host: 'redis.example', port: 7000, db: 3, username: 'user', password: 'p@ss' }],
    ['redis://:secret@redis.example', { host: 'redis.example', password: 'secret' }],
    ['redis://redis.example?db=2&family=6', { host: 'redis.example', db: 2, family: 6 }],
    ['redis://[::1]:7000', { host: '::1', port: 7000 }],
    ['redis.example:7000', { host: 'redis.example', port: 7000 }],
    ['/run/redis.sock?db=2', { path: '/run/redis.sock', db: 2 }],
    ['redis://redis.example?connectTimeout=200', { connectTimeout: 200 }],
    ['rediss://redis.example', { tls: {} }],
  ])('is understood: %s', async (url, expected) => {
    expect(await byOptions(url)).toMatchObject(expected);
  });

  it('asks for TLS by its scheme only', async () => {
    expect(await byOptions('redis://redis.example')).not.toHaveProperty('tls');
  });

  it.each(['', '0', 'soon'])('does not make connecting endless with connectTimeout=%s', async (value) => {
    expect(await byOptions(`redis://redis.example?connectTimeout=${value}`)).toMatchObject({ connectTimeout: 1_000 });
  });
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
    const subscriber = connections.subscribe();
    await Promise.all([connections.commands.start(), subscriber.open(['channel'], () => {})]);
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
      const ended = new Promise<void>((resolve) => connections.commands.onEnd(resolve));
      await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await ended;
    };
    await cut();
    expect(clock.pendingTimers).toBe(1);
    const open = new Promise<void>((resolve) => connections.commands.onOpen(resolve));
    await clock.advance(1_000);
    await open;
    expect(await connections.commands.sender.call('ping')).toBe('PONG');
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
    await expect(connecting).rejects.toThrow('the connection was closed');
    expect(String(await server.command('CLIENT', 'LIST'))).not.toContain('nestjs-holdfast');
    await server.stop();
  });
});
