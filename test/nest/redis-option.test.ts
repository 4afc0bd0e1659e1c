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
