/** What the option `redis` refuses in words, and the option `client`. */
import { describe, expect, it } from '@jest/globals';
import { createClientPool } from 'redis';
import { lockHome, type LockModuleOptions } from '../../lib/nest/lock-module-options.js';
import type { RedisTarget } from '../../lib/stores/wire/redis-target.js';

const refusal = (options: LockModuleOptions): string => {
  try {
    lockHome(options, 'test');
  } catch (error) {
    return (error as Error).message;
  }
  return 'not refused';
};

describe('The option redis', () => {
  it.each(['https://eu1-example-1.upstash.io', 'http://localhost:8079'])('refuses an HTTP endpoint, and says what to give instead: %s', (redis) => {
    expect(refusal({ redis })).toMatch(/^LockModule options: redis is an HTTP endpoint, and locks need the Redis protocol.*rediss:\/\/ URL of the same database\.$/);
  });

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

describe('Options of a Redis', () => {
  const host = 'redis.example';
  it.each<[object, string]>([
    [{ host, db: NaN }, 'expected redis.db to be a whole number from 0, got NaN; look whether an environment variable is missing'],
    [{ host, db: '' }, `expected redis.db to be a whole number from 0, got ''`],
    [{ host, db: 'orders' }, `got 'orders'`],
    [{ host, port: NaN }, 'expected redis.port to be a whole number from 1 to 65535, got NaN; look whether an environment variable is missing'],
    [{ host, port: 70_000 }, 'got 70000'],
    [{ cluster: [{ host, port: 0 }] }, 'got 0'],
    [{ sentinels: [{ host, port: 'abc' }], name: 'orders' }, `got 'abc'`],
    [{ sentinels: [{ host }] }, 'redis has sentinels, but no name of the master that they watch'],
  ])('with a number that is none, or without a name that is needed, are refused at boot: %j', (redis, words) => {
    expect(refusal({ redis: redis as RedisTarget })).toContain(words);
  });

  it.each<[object]>([[{ host, db: 3, port: 7000 }], [{ host, db: '3', port: '7000' }], [{ host, db: undefined, port: undefined }], [{ cluster: [7000, `redis://${host}`] }], [{ path: '/run/redis.sock' }]])(
    'may be numbers, their texts, or left out: %j',
    (redis) => expect(refusal({ redis: redis as RedisTarget })).toBe('not refused'),
  );

  it('that are neither a text nor an object are told by what they are', () => {
    expect(refusal({ redis: 6379 as unknown as RedisTarget })).toBe('LockModule options: expected redis to be a URL, options or a client, got 6379.');
    expect(refusal({ redis: createClientPool as unknown as RedisTarget })).toContain('got a function');
  });
});

describe('The option client', () => {
  it('is one of the two packages', () => {
    expect(refusal({ redis: 'redis://localhost', client: 'node-redis' as 'redis' })).toContain("expected client to be 'ioredis' or 'redis', got 'node-redis'");
    expect(refusal({ redis: 'redis://localhost', client: 'redis' })).toBe('not refused');
  });
});
