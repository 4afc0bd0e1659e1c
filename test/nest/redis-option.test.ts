/** What the option `redis` refuses in words, and the option `client`. */
import { describe, expect, it } from '@jest/globals';
import { createClientPool } from 'redis';
import { whereabouts, type LockModuleOptions } from '../../lib/nest/lock-module-options.js';
import type { RedisTarget } from '../../lib/stores/wire/redis-target.js';

const refusal = (options: LockModuleOptions): string => {
  try {
    whereabouts(options, 'test');
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

describe('The option client', () => {
  it('is one of the two packages', () => {
    expect(refusal({ redis: 'redis://localhost', client: 'node-redis' as 'redis' })).toContain("expected client to be 'ioredis' or 'redis', got node-redis");
    expect(refusal({ redis: 'redis://localhost', client: 'redis' })).toBe('not refused');
  });
});
