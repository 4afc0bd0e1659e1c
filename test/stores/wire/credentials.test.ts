/** Logins that change while a process runs: rotated passwords, and tokens that end. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { inspect } from 'node:util';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import type { LockStore } from '../../../lib/core/port/lock-store.js';
import { LockService } from '../../../lib/lock.service.js';
import { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import { RedlockStore } from '../../../lib/stores/redlock/redlock-store.js';
import { connectTo } from '../../../lib/stores/wire/connect-to.js';
import type { Credentials, ClientPackage, RedisTarget } from '../../../lib/stores/wire/redis-target.js';
import { eventually } from '../../support/eventually.js';
import { startCluster } from '../../support/redis-cluster.js';
import { startSentinel } from '../../support/redis-sentinel.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { admitAll } from '../../support/redlock-store.js';
import { USUAL_OPTIONS } from '../../support/store-options.js';

const COMMAND_TIMEOUT_MS = 1_000;

const stops: (() => Promise<void>)[] = [];
let opened: LockService[] = [];
afterEach(async () => {
  await Promise.all(opened.map((locks) => locks.close()));
  opened = [];
});
afterAll(async () => {
  for (const stop of stops) await stop();
});

/** What gives the password that is valid, and how often it was asked. */
class Secret {
  password = 'first';
  asked = 0;
  readonly ask: Credentials = async () => {
    this.asked += 1;
    return { username: 'locks', password: this.password };
  };
}

interface Place {
  readonly servers: readonly RedisServer[];
  readonly sentinels?: readonly RedisServer[];
  /** One target, or several for a Redlock. */
  targets(ask: Credentials): readonly RedisTarget[];
}

const PLACES: readonly [string, () => Promise<Place>][] = [
  ['one Redis by options', async () => single((server, credentials) => ({ host: '127.0.0.1', port: server.port, credentials }))],
  ['one Redis by a URL', async () => single(({ url }, credentials) => ({ url, credentials }))],
  ['Sentinel', async () => {
    const group = await startSentinel({ replicas: 1 });
    stops.push(() => group.stop());
    const sentinels = group.sentinels.map(({ port }) => ({ host: '127.0.0.1', port }));
    return { servers: group.servers, sentinels: group.sentinels, targets: (ask) => [{ sentinels, name: 'holdfast', credentials: ask, sentinelCredentials: ask }] };
  }],
  ['a Cluster', async () => {
    const cluster = await startCluster();
    stops.push(() => cluster.stop());
    return { servers: cluster.masters, targets: (ask) => [{ cluster: cluster.startupNodes, credentials: ask }] };
  }],
  ['a Redlock', async () => {
    const servers = await Promise.all([1, 2, 3].map(() => startRedis()));
    stops.push(async () => void (await Promise.all(servers.map((server) => server.stop()))));
    await admitAll(servers);
    return { servers, targets: (ask) => servers.map(({ port }) => ({ host: '127.0.0.1', port, credentials: ask })) };
  }],
];

async function single(target: (server: RedisServer, ask: Credentials) => RedisTarget): Promise<Place> {
  const server = await startRedis();
  stops.push(() => server.stop());
  return { servers: [server], targets: (ask) => [target(server, ask)] };
}

/** Makes `password` the only one of the user `locks`, and ends all its connections. */
async function rotate({ servers, sentinels = [] }: Place, password: string): Promise<void> {
  for (const server of [...servers, ...sentinels]) await server.command('ACL', 'SETUSER', 'locks', 'on', 'resetpass', `>${password}`, '~*', '&*', '+@all');
  for (const server of [...servers, ...sentinels]) await server.command('CLIENT', 'KILL', 'USER', 'locks');
}

/** How many connections the user `locks` has, and how many of them listen. */
async function connectionsOf(servers: readonly RedisServer[]): Promise<{ all: number; listening: number }> {
  const lists = await Promise.all(servers.map((server) => server.command('CLIENT', 'LIST')));
  const lines = lists.flatMap((list) => String(list).trim().split('\n')).filter((line) => / user=locks\b/.test(line) && / name=nestjs-holdfast\b/.test(line));
  return { all: lines.length, listening: lines.filter((line) => !/ sub=0\b/.test(line)).length };
}

async function open(targets: readonly RedisTarget[], client?: ClientPackage, bootTimeoutMs = 10_000): Promise<LockService> {
  const connections = await Promise.all(targets.map((target) => connectTo(target, client)));
  const process = 'p';
  const options = { ...USUAL_OPTIONS, bootTimeoutMs, recoveryMs: 0, commandTimeoutMs: COMMAND_TIMEOUT_MS, process };
  const store: LockStore = connections.length === 1 ? new RedisStore({ ...options, connection: connections[0]! }) : new RedlockStore({ ...options, nodes: connections });
  const locks = new LockService({ store, process });
  opened.push(locks);
  await locks.open();
  return locks;
}

/** Holds a lock while the password changes and all connections are cut: it is still held then, and others can be taken. */
async function locksGoOn(locks: LockService, place: Place, change: () => Promise<void>): Promise<void> {
  await locks.withLock('k', async (lease) => {
    const before = await connectionsOf(place.servers);
    await change();
    await eventually(async () => expect(await lease.verify()).toBe(true), 15_000);
    await eventually(async () => void (await locks.withLock('other', async () => {})), 15_000);
    await eventually(async () => expect((await connectionsOf(place.servers)).listening).toBe(before.listening), 15_000);
    lease.assertHeld();
  });
}

describe.each<ClientPackage>(['ioredis', 'redis'])('With %s, credentials', (client) => {
  it.each(PLACES)('are asked for at each connection to %s: locks go on when the password was changed and all connections were cut', async (_, start) => {
    const place = await start();
    const secret = new Secret();
    await rotate(place, secret.password);
    const locks = await open(place.targets(secret.ask), client);
    await locksGoOn(locks, place, async () => {
      const { asked } = secret;
      secret.password = 'second';
      await rotate(place, 'second');
      await eventually(() => expect(secret.asked).toBeGreaterThan(asked));
    });
  }, 90_000);

  describe('of one Redis', () => {
    let place: Place;
    beforeAll(async () => {
      place = await PLACES[0]![1]();
    }, 60_000);

    it.each<[string, Credentials, string]>([
      ['fail', () => Promise.reject(new Error('the vault is sealed')), 'the function credentials failed: the vault is sealed'],
      ['throw', () => { throw new Error('the vault is sealed'); }, 'the function credentials failed: the vault is sealed'],
      ['throw when they are read', () => ({ get password(): string { throw new Error('the vault is sealed'); } }), 'the function credentials failed: the vault is sealed'],
      ['read a secret that is no JSON', () => JSON.parse('hunter2') as never, 'the function credentials failed: SyntaxError'],
      ['hang', () => new Promise(() => {}), `the function credentials gave nothing within ${COMMAND_TIMEOUT_MS} ms`],
      ['give a text', () => 'hunter2' as never, 'the function credentials did not give { username?, password }, with a password that is a text'],
      ['give nothing', () => undefined as never, 'the function credentials did not give { username?, password }, with a password that is a text'],
      ['give no password', () => ({ username: 'hunter2' }) as never, 'the function credentials did not give { username?, password }, with a password that is a text'],
      ['give an empty password', () => ({ password: '' }), 'the function credentials did not give { username?, password }, with a password that is a text'],
    ])('that %s refuse the boot in words, without a value', async (_, ask, words) => {
      const error: unknown = await open(place.targets(ask), client, 1_500).catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: 'LOCK_STORE', message: expect.stringContaining(words) });
      expect(inspect(error, { depth: Infinity })).not.toContain('hunter2');
    });

    it('that fail for a while are asked again, like a server that refuses connections', async () => {
      const secret = new Secret();
      await rotate(place, secret.password);
      let failures = 0;
      const locks = await open(place.targets((...none) => (failures > 0 && failures-- > 0 ? Promise.reject(new Error('throttled')) : secret.ask(...none))), client);
      await locksGoOn(locks, place, async () => {
        failures = 5;
        secret.password = 'third';
        await rotate(place, 'third');
      });
      expect(failures).toBe(0);
    }, 60_000);

    it('that know the new password later than the server are asked again, and calls wait', async () => {
      const secret = new Secret();
      await rotate(place, secret.password);
      const locks = await open(place.targets(secret.ask), client);
      await rotate(place, 'fifth');
      const before = secret.asked;
      const waits = locks.withLock('k', { waitMs: 30_000 }, () => 'done');
      await eventually(() => expect(secret.asked).toBeGreaterThan(before + 2));
      secret.password = 'fifth';
      expect(await waits).toBe('done');
    }, 60_000);

    it('leave the name of the user that stands in the options', async () => {
      await rotate(place, 'fourth');
      const { port } = place.servers[0]!;
      const locks = await open([{ url: `redis://locks@127.0.0.1:${port}`, credentials: () => ({ password: 'fourth' }) }], client);
      await locks.withLock('k', async (lease) => lease.assertHeld());
    });
  });
});

describe('A client that is given', () => {
  let place: Place;
  let options: { host: string; port: number; username: string; lazyConnect: true };
  const given: { disconnect(): void }[] = [];
  beforeAll(async () => {
    place = await PLACES[0]![1]();
    options = { host: '127.0.0.1', port: place.servers[0]!.port, username: 'locks', lazyConnect: true };
  }, 60_000);
  afterEach(() => {
    for (const client of given.splice(0)) client.disconnect();
  });

  it('of ioredis says how to log in at each connection, as its options stand then', async () => {
    await rotate(place, 'first');
    const client = new Redis({ ...options, password: 'first' });
    given.push(client);
    const locks = await open([client]);
    await locksGoOn(locks, place, async () => {
      client.options.password = 'second';
      await rotate(place, 'second');
    });
    expect(client.status).toBe('wait');
  }, 60_000);

  it('of a subclass of ioredis asks before each connection of ours as well, and is not connected', async () => {
    const secret = new Secret();
    class TokenRedis extends Redis {
      readonly source = secret;
      override async connect(): Promise<void> {
        Object.assign(this.options, await this.source.ask());
        return super.connect();
      }
    }
    await rotate(place, secret.password);
    const client = new TokenRedis(options);
    given.push(client);
    const locks = await open([client]);
    await locksGoOn(locks, place, async () => {
      secret.password = 'second';
      await rotate(place, 'second');
    });
    expect([client.status, client.options.password]).toEqual(['wait', null]);
  }, 60_000);

  it('of node-redis asks its credentialsProvider at each connection', async () => {
    const secret = new Secret();
    await rotate(place, secret.password);
    const { host, port } = options;
    const client = createClient({ socket: { host, port }, credentialsProvider: { type: 'async-credentials-provider', credentials: async () => secret.ask() } });
    const locks = await open([client as unknown as RedisTarget]);
    await locksGoOn(locks, place, async () => {
      secret.password = 'second';
      await rotate(place, 'second');
    });
    expect(client.isOpen).toBe(false);
  }, 60_000);
});
