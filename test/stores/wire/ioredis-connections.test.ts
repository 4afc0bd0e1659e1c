/** What becomes of a URL and its parameters, and of a client that gives up; the rest is tested with the stores that use them. */
import { createServer, type AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { systemClock } from '../../../lib/core/port/clock.js';
import { IoredisConnections } from '../../../lib/stores/wire/ioredis/ioredis-connections.js';
import type { RedisTarget } from '../../../lib/stores/wire/redis-target.js';
import { eventually } from '../../support/eventually.js';
import { FakeClock } from '../../support/fake-clock.js';
import { startCluster } from '../../support/redis-cluster.js';
import { startRedis } from '../../support/redis-server.js';

const opened: IoredisConnections[] = [];
afterEach(() => opened.splice(0).forEach((connections) => connections.close()));

function connectionsTo(target: RedisTarget): IoredisConnections {
  const connections = new IoredisConnections(target, { Redis, Cluster }, 2_000, systemClock);
  opened.push(connections);
  return connections;
}

/** The client of a connection for messages. */
function subscriberOf(connections: IoredisConnections): Redis {
  return (connections.subscribe() as unknown as { client: Redis }).client;
}

function optionsOf(url: string): RedisOptions {
  const { client: commands } = connectionsTo(url);
  if (!(commands instanceof Redis)) throw new Error('a URL is no Cluster');
  return commands.options;
}

describe('a URL', () => {
  it.each<[string, RedisOptions]>([
    ['redis://user:p%40ss@redis.example:7000/3', { host: 'redis.example', port: 7000, db: 3, username: 'user', password: 'p@ss' }],
    ['redis://:secret@redis.example', { host: 'redis.example', port: 6379, db: 0, password: 'secret' }],
    ['redis://redis.example?db=2&family=6', { host: 'redis.example', db: 2, family: 6 }],
    ['redis://[::1]:7000', { host: '::1', port: 7000 }],
    ['redis.example:7000', { host: 'redis.example', port: 7000 }],
    ['/run/redis.sock?db=2', { path: '/run/redis.sock', db: 2 }],
    ['redis://redis.example?connectTimeout=200', { connectTimeout: 200 }],
  ])('is understood: %s', (url, expected) => {
    expect(optionsOf(url)).toMatchObject(expected);
  });

  it('asks for TLS by its scheme, and only by that', () => {
    expect(optionsOf('rediss://redis.example').tls).toBeTruthy();
    expect(optionsOf('redis://redis.example').tls).toBeFalsy();
  });

  it('changes nothing by its parameters that has to be as it is', () => {
    const parameters = 'keyPrefix=app:&enableOfflineQueue=true&maxRetriesPerRequest=20&stringNumbers=true&readOnly=true&commandTimeout=1';
    const url = `redis://redis.example?${parameters}&lazyConnect=&connectTimeout=60000&enableAutoPipelining=true&connectionName=other`;
    const connections = connectionsTo(url);
    for (const { options } of [connections.client, connections.replicated().client, subscriberOf(connections)] as Redis[]) {
      expect(options).toMatchObject({
        keyPrefix: '',
        enableOfflineQueue: false,
        maxRetriesPerRequest: 0,
        stringNumbers: false,
        readOnly: false,
        commandTimeout: undefined,
        lazyConnect: true,
        connectTimeout: 1_000,
        enableAutoPipelining: false,
        // Whatever is sent before a connection is ready keeps some versions of ioredis from ever coming back.
        connectionName: null,
        disableClientInfo: true,
      });
    }
  });

  it.each(['', '0', 'soon'])('does not make connecting endless with connectTimeout=%s', (value) => {
    expect(optionsOf(`redis://redis.example?connectTimeout=${value}`).connectTimeout).toBeGreaterThan(0);
  });

  it('is not connected to before the connection is used, and then once', async () => {
    let accepted = 0;
    const server = createServer((socket) => {
      accepted += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const { client: commands } = connectionsTo(`redis://127.0.0.1:${port}?lazyConnect=`);
    commands.on('error', () => {});
    await new Promise<void>((resolve) => {
      commands.once('close', resolve);
      commands.connect().catch(() => undefined);
    });
    expect(accepted).toBe(1);
    await new Promise((resolve) => server.close(resolve));
  });
});

describe("an application's own Cluster client", () => {
  it('gives its copy neither its keyPrefix nor its own commands', () => {
    const own = new Cluster([{ host: 'redis.example', port: 7000 }], {
      keyPrefix: 'app:',
      scripts: { get: { lua: 'return 1', numberOfKeys: 1 } },
      redisOptions: { keyPrefix: 'node:', scripts: { set: { lua: 'return 1', numberOfKeys: 1 } } },
      lazyConnect: true,
    });
    const { client: commands } = connectionsTo(own);
    expect(commands.options).toMatchObject({ keyPrefix: '', scripts: undefined, redisOptions: { keyPrefix: '', scripts: undefined } });
    expect(Object.hasOwn(commands, 'get')).toBe(false);
    expect(own.options.keyPrefix).toBe('app:');
    own.disconnect();
  });
});

describe('a Cluster whose options let nodes reconnect by themselves', () => {
  it('tells of each node that was away all the same, because another server, or an earlier state, may answer there now', async () => {
    const cluster = await startCluster({ masters: 2 });
    const connections = connectionsTo({ cluster: cluster.startupNodes, options: { clusterNodeRetryStrategy: () => 100 } });
    await connections.commands.start();
    const one = cluster.masters[0]!;
    for (let n = 0; n < 20; n++) await connections.commands.sender.call('GET', `k${n}`);
    let changes = 0;
    connections.onChange(() => (changes += 1));
    await one.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually(() => expect(changes).toBeGreaterThan(0));
    connections.close();
    await cluster.stop();
  });
});

describe('a connection', () => {
  it('is found in CLIENT LIST by its name, that of messages as well', async () => {
    const server = await startRedis();
    const connections = connectionsTo(server.url);
    const subscriber = connections.subscribe();
    await Promise.all([connections.commands.start(), subscriber.open(['channel'], () => {})]);
    await eventually(async () => expect(String(await server.command('CLIENT', 'LIST')).match(/ name=nestjs-holdfast /g)).toHaveLength(2));
    subscriber.close();
    connections.close();
    await server.stop();
  });

  it.each([
    ['gave up', (client: Redis) => client.disconnect()],
    [
      'takes itself for connected on a socket that is gone',
      (client: Redis) => {
        client.once('reconnecting', () => (client.status = 'ready'));
        client.stream.destroy();
      },
    ],
  ])('of a client that %s is made again', async (_, stop) => {
    const server = await startRedis();
    const { client: commands } = connectionsTo(server.url);
    if (!(commands instanceof Redis)) throw new Error('a URL is no Cluster');
    await commands.connect();
    const closed = new Promise((resolve) => commands.once('close', resolve));
    stop(commands);
    await closed;
    await eventually(async () => expect(await commands.ping()).toBe('PONG'));
    await server.stop();
  });

  it('is not made again once the store is closed, and keeps no timer', async () => {
    const server = await startRedis();
    const clock = new FakeClock();
    const connections = new IoredisConnections(server.url, { Redis, Cluster }, 2_000, clock);
    const { client: commands } = connections;
    if (!(commands instanceof Redis)) throw new Error('a URL is no Cluster');
    await commands.connect();
    const ended = new Promise((resolve) => commands.once('end', resolve));
    commands.disconnect();
    await ended;
    expect(clock.pendingTimers).toBe(1);
    connections.close();
    expect(clock.pendingTimers).toBe(0);
    await server.stop();
  });
});
