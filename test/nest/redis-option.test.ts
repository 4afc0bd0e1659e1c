/** What is wrong with an option `redis`, told by its name; what ioredis would take for another server or another database. */
import { describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { createClient, createClientPool } from 'redis';
import { LockModule } from '../../lib/index.js';
import { lockHome, type LockModuleOptions } from '../../lib/nest/lock-module-options.js';
import { targetProblem } from '../../lib/nest/redis-option.js';
import type { RedisTarget } from '../../lib/stores/wire/redis-target.js';
import { startApp } from './application.js';

const host = 'redis.example';
const LOOK = 'look whether an environment variable is missing';
const problem = (target: unknown) => targetProblem('redis', target);
const nothing = () => undefined;

describe('The option redis', () => {
  it.each([undefined, null, '', '  '])('is missing when it is %p', (target) => {
    expect(problem(target)).toBe(`redis was given, but it is undefined or empty; ${LOOK}`);
  });

  it.each<[unknown, string]>([[6379, '6379'], [true, 'true'], [nothing, 'a function']])('is neither a URL nor options nor a client when it is %p', (target, shown) => {
    expect(problem(target)).toBe(`expected redis to be a URL, options or a client, got ${shown}`);
  });

  it('may be a client of both packages; other objects with the methods of a client are refused', () => {
    for (const client of [new Redis({ lazyConnect: true }), createClient()]) expect(problem(client)).toBeUndefined();
    for (const client of [{ duplicate: nothing }, { sendCommand: nothing }]) expect(problem(client)).toMatch(/^redis is a client that locks cannot use/);
    expect(problem({ host, duplicate: true })).toMatch(/^redis: unknown option 'duplicate'/);
  });

  it('is refused as an HTTP endpoint, however that is written', () => {
    for (const url of ['http://a', 'https://a', 'HTTPS://a']) expect(problem(url)).toMatch(/^redis is an HTTP endpoint/);
    expect(problem({ cluster: ['https://a'] })).toMatch(/^redis\.cluster is an HTTP endpoint/);
    expect(problem('redis://a/http://b')).not.toMatch(/HTTP endpoint/);
    expect(problem('mysql://a')).toMatch(/^redis starts with neither/);
    expect(problem({ url: 'https://a' })).toMatch(/^redis\.url is an HTTP endpoint/);
  });

  it('may have its address as a URL among other options, but not beside another address', () => {
    expect(problem({ url: 'redis://a', db: 3, credentials: nothing })).toBeUndefined();
    expect(problem({ url: undefined })).toBe(`expected redis.url to be a URL, got undefined; ${LOOK}`);
    expect(problem({ url: ' ' })).toMatch(/^expected redis\.url to be a URL/);
    expect(problem({ url: 'mysql://a' })).toMatch(/^redis\.url starts with neither/);
    expect(problem({ url: 'redis://a', db: -1 })).toMatch(/^expected redis\.db/);
    for (const beside of ['host', 'port', 'path', 'sentinels']) expect(problem({ url: 'redis://a', [beside]: 'b' })).toBe(`redis has url and ${beside}; give one of them`);
  });

  it.each<[string, object]>([['credentials', { host }], ['credentials', { cluster: [host] }], ['sentinelCredentials', { sentinels: [{ host }], name: 'main' }]])('has %s as a function only: a login would be the same for all connections', (name, target) => {
    expect(problem({ ...target, [name]: nothing })).toBeUndefined();
    for (const [given, type] of [[{ password: 'hunter2' }, 'object'], ['hunter2', 'string'], [Promise.resolve(), 'object']]) {
      expect(problem({ ...target, [name]: given })).toBe(`expected redis.${name} to be a function that returns { username?, password } or a promise of it, got ${type}`);
    }
  });
});

describe('A number of the option redis', () => {
  it.each<[unknown]>([[0], [3], ['3'], ['0'], [null], [undefined]])('may be a database: %p', (db) => expect(problem({ host, db })).toBeUndefined());

  it.each<[unknown, string]>([[-1, '-1'], [1.5, '1.5'], [NaN, 'NaN'], ['3a', `'3a'`], ['a3', `'a3'`], ['', `''`], ['-1', `'-1'`], [true, 'true'], [{}, 'an object'], [[3], 'an array']])('is no database: %p', (db, shown) => {
    expect(problem({ host, db })).toBe(`expected redis.db to be a whole number from 0, got ${shown}; ${LOOK}`);
  });

  it.each<[unknown]>([[1], [65_535], ['6379'], [null], [undefined]])('may be a port: %p', (port) => {
    expect(problem({ host, port })).toBeUndefined();
    expect(problem({ cluster: [{ host, port }] })).toBeUndefined();
    expect(problem({ sentinels: [{ host, port }], name: 'main' })).toBeUndefined();
  });

  it.each<[unknown, string]>([[0, '0'], [65_536, '65536'], ['0', `'0'`], [1.5, '1.5'], ['a', `'a'`], [{}, 'an object'], [[6379], 'an array']])('is no port: %p', (port, shown) => {
    const words = `expected redis.port to be a whole number from 1 to 65535, got ${shown}; ${LOOK}`;
    expect(problem({ host, port })).toBe(words);
    expect(problem({ cluster: [{ host, port: 1 }, { host, port }] })).toBe(words);
  });

  it('may be a node of a Cluster on this machine', () => {
    expect(problem({ cluster: [7000, '7001', { port: 7002 }] })).toBeUndefined();
    expect(problem({ cluster: [70_000] })).toBe(`expected redis.port to be a whole number from 1 to 65535, got 70000; ${LOOK}`);
  });
});

describe('The address of the option redis', () => {
  const nowhere = `redis was given, but its host (or path, cluster, sentinels) is undefined or empty, which would mean the Redis on this machine; ${LOOK}`;

  it.each<[object]>([
    [{}], [{ host: '' }], [{ host: undefined, port: 6379 }], [{ path: '' }], [{ path: '', host: '' }], [{ port: NaN }], [{ port: '' }], [{ cluster: [] }], [{ cluster: host }], [{ cluster: undefined }],
    [{ cluster: [host, ''] }], [{ cluster: [host, null] }], [{ cluster: [host, NaN] }], [{ cluster: [{}] }], [{ sentinels: [], name: 'main' }], [{ sentinels: [{ host: '' }], name: 'main' }], [{ sentinels: null }],
  ])('is missing in case %#: %j', (target) => expect(problem(target)).toBe(nowhere));

  it.each<[object]>([
    [{ host }], [{ port: 6379 }], [{ port: '6379' }], [{ path: '/run/redis.sock' }], [{ path: '/run/redis.sock', host: '' }], [{ path: '', host }], [{ sentinels: null, host }], [{ sentinels: undefined, host }],
    [{ sentinels: [{ host }, { host }], name: 'main' }],
  ])('is there in case %#: %j', (target) => expect(problem(target)).toBeUndefined());

  it.each<[object]>([[{}], [{ name: '' }], [{ name: 7 }], [{ name: undefined }]])('of Sentinels needs the name of a master, which is missing in case %#: %j', (more) => {
    expect(problem({ sentinels: [{ host }], ...more })).toBe(`redis has sentinels, but no name of the master that they watch, such as name: 'mymaster'`);
  });
});

describe('The options of a Cluster', () => {
  it.each<[object]>([[{ options: undefined }], [{ options: { maxRedirections: 4 } }], [{ options: { maxRedirections: null } }], [{ options: { redisOptions: undefined } }], [{ options: { redisOptions: { password: 'a' } } }], [{ options: { redisOptions: { password: null } } }]])(
    'are taken in case %#: %j',
    (more) => expect(problem({ cluster: [host], ...more })).toBeUndefined(),
  );

  it.each<[object, RegExp]>([
    [{ password: 'a' }, /^redis: unknown option 'password'/],
    [{ options: 7 }, /^redis\.options: expected options to be an object such as \{ maxRedirections: 4 \}, got 7/],
    [{ options: null }, /^redis: expected options to have a value or to be left out, got null/],
    [{ options: { host } }, /^redis\.options: unknown option 'host'/],
    [{ options: { redisOptions: 7 } }, /^redis\.options\.redisOptions: expected options to be an object such as \{ password: … \}, got 7/],
    [{ options: { redisOptions: { pass: 'a' } } }, /^redis\.options\.redisOptions: unknown option 'pass'/],
  ])('are refused: %j', (more, words) => expect(problem({ cluster: [host], ...more })).toMatch(words));
});

describe('A URL with a password in another place than as redis', () => {
  const url = 'redis://:hunter2@redis.example:6379';
  const inHost = (name: string) => `${name} has a host with a character that no name of a host has, as in a URL; a URL is given as redis itself, and a name without quotes`;

  it.each<[string, unknown]>([
    ['the host', { host: url, port: 6379 }],
    ['the host of a Sentinel', { sentinels: [{ host: url }], name: 'main' }],
    ['a Sentinel', { sentinels: [{ host }, url], name: 'main' }],
    ['the name of the master', { sentinels: [{ host }], name: url }],
    ['the host of a node of a Cluster', { cluster: [host, { host: url, port: 7000 }] }],
    ['the host without its protocol', { host: ':hunter2@redis.example' }],
    ['the host in quotes', { host: '"redis.example"' }],
  ])('is refused at once, and nothing of it is repeated: %s', (_where, target) => expect(problem(target)).toBe(inHost('redis')));

  it.each<[string, () => unknown]>([
    ['ioredis', () => new Redis({ host: url, lazyConnect: true })],
    ['ioredis behind Sentinels', () => new Redis({ sentinels: [{ host: url }], name: 'main', lazyConnect: true })],
    ['ioredis for a Cluster', () => new Cluster([{ host: url, port: 7000 }], { lazyConnect: true })],
    ['node-redis', () => createClient({ socket: { host: url } })],
  ])('is refused in a client: %s', (_which, client) => expect(problem(client())).toBe(inHost('the client in redis')));

  it('is not repeated from a number', () => {
    expect(problem({ host, port: url })).toBe(`expected redis.port to be a whole number from 1 to 65535, got a URL; ${LOOK}`);
    expect(problem({ host, db: url })).toBe(`expected redis.db to be a whole number from 0, got a URL; ${LOOK}`);
  });

  it('is not repeated from any other option', async () => {
    await expect(startApp({}, LockModule.forRoot({ redis: 'redis://127.0.0.1:1', prefix: url }))).rejects.toThrow(/expected prefix to be .*, got a URL/);
  });

  it('may be a name with everything that names have', () => {
    for (const name of ['redis-0.redis.svc.cluster.local', '::1', 'fe80::1%eth0', 'my_redis', '10.0.0.7']) expect(problem({ host: name })).toBeUndefined();
  });
});

describe('What stands around the option redis', () => {
  const quoted = 'has quotes around it, which are part of the value, as the env file of a container keeps them; leave them out';

  it.each<[string]>([['"redis://a"'], [`'redis://a'`], ['"redis://a'], ['redis://a"'], ['`redis://a`']])('is no quotes: %s', (url) => {
    expect(problem(url)).toBe(`redis ${quoted}`);
    expect(problem({ cluster: [url] })).toBe(`redis.cluster ${quoted}`);
  });

  it('is no promise, as connect() of node-redis gives', () => {
    expect(problem(Promise.resolve(createClient()))).toBe('redis is a promise; give the client itself, or await it in useFactory: ({ redis: await … })');
  });
});

/** What the option `redis` refuses in words, and the option `client`. */
const refusal = (options: LockModuleOptions): string => {
  try {
    lockHome(options, 'test');
  } catch (error) {
    return (error as Error).message;
  }
  return 'not refused';
};

describe('The option redis', () => {
  it('refuses a pool of clients, and names the clients that can be given', () => {
    expect(refusal({ redis: createClientPool() as unknown as RedisTarget })).toMatch(/redis is a client that locks cannot use.*new Redis\(\).*createClient\(\), createCluster\(\), createSentinel\(\)/);
  });
});

describe('A URL of a Redis', () => {
  it.each([
    ['mysql://db.example', 'starts with neither redis:// nor rediss://'],
    ['unix:///run/redis.sock', 'a Unix socket is given by its path alone'],
    ['REDISS://redis.example', 'starts with neither redis:// nor rediss://'],
    ['redis://:se/cret@redis.example', 'cannot be read as a URL; in a user name or a password /'],
    ['redis://secret#@redis.example', 'cannot be read as a URL'],
    ['redis://secret@redis.example :6379', 'has a space in it, and a URL has none; look at where it comes from'],
    ['redis://:secret%zz@redis.example', 'cannot be read as a URL'],
    ['redis://', 'names no host, which would mean the Redis on this machine'],
    ['redis://redis.example/orders', 'names a database that is no whole number from 0'],
    ['redis://user/secret@redis.example', 'names a database that is no whole number from 0'],
    ['redis://redis.example?db=NaN', 'names a database that is no whole number from 0'],
    ['redis.example/2', 'names a database but does not start with redis:// or rediss://'],
  ])('that cannot be meant is refused at boot, and the words keep its password to themselves: %s', (redis, words) => {
    expect(refusal({ redis })).toContain(words);
    expect(refusal({ redis: { cluster: [redis] } })).toContain(words);
    expect(refusal({ redis })).not.toContain('secret');
  });

  it.each(['redis://redis.example', 'rediss://u:p%2Fw@redis.example:7000/3', 'redis.example', 'redis.example:7000', '7000', '/run/redis.sock?db=2', 'redis://[::1]/', 'redis://redis.example?db=4'])(
    'is taken in the forms that both clients read alike: %s',
    (redis) => expect(refusal({ redis })).toBe('not refused'),
  );
});
