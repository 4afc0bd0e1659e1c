/** Which store the options of a lock module make, and what they say to it. No store is opened here, so that nothing connects. */
import { describe, expect, it } from '@jest/globals';
import { systemClock } from '../../lib/core/port/clock.js';
import { createStore } from '../../lib/nest/lock-providers.js';
import { lockHome, type LockModuleOptions } from '../../lib/nest/lock-module-options.js';
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';
import { RedisStore } from '../../lib/stores/redis/redis-store.js';
import { RedlockStore } from '../../lib/stores/redlock/redlock-store.js';

const redis = 'redis://127.0.0.1:1';

async function made(options: LockModuleOptions, environment = 'production'): Promise<{ store: object; options: unknown }> {
  const where = lockHome(options, environment);
  if (where.kind === 'elsewhere') throw new Error('a route has no store');
  const store = await createStore(where, options, { process: 'p', clock: systemClock, report: () => {}, environment });
  await store.close();
  return { store, options: Reflect.get(store, 'options') };
}

describe('The store of a lock module', () => {
  it('is one Redis with what the options say, and else with the defaults', async () => {
    const usual = await made({ redis });
    expect(usual.store).toBeInstanceOf(RedisStore);
    expect(usual.options).toMatchObject({
      process: 'p', prefix: 'lock', maxLeaseMs: 60_000, commandTimeoutMs: 2_000, bootTimeoutMs: 10_000, strictServer: false, minReplicas: 0, recoveryMs: 1_000,
    });
    const given = { prefix: 'shop', maxLeaseMs: 40_000, commandTimeoutMs: 500, bootTimeoutMs: 700, strictServer: true, minReplicas: 1 };
    expect((await made({ redis, ...given, recoveryMs: 'lease' })).options).toMatchObject({ ...given, recoveryMs: 40_000 });
    expect((await made({ redis }, 'test')).options).toMatchObject({ recoveryMs: 0 });
  });

  it('is a Redlock for several servers, and the memory of this process for none', async () => {
    const several = await made({ redis: [redis, redis.replace(':1', ':2'), redis.replace(':1', ':3')], prefix: 'shop' });
    expect(several.store).toBeInstanceOf(RedlockStore);
    const { store } = await made({ embedded: true, maxLeaseMs: 40_000 });
    expect(store).toBeInstanceOf(MemoryStore);
    expect((store as MemoryStore).capabilities.maxLeaseMs).toBe(40_000);
  });
});
