/** Redis stores for tests, with the usual options, and processes with locks there; `closeStores` ends all that were opened. */
import type { LockDefaults } from '../../lib/core/port/lock-options.js';
import { LockService } from '../../lib/lock.service.js';
import { RedisStore, type RedisStoreOptions } from '../../lib/stores/redis/redis-store.js';
import type { RedisTarget } from '../../lib/stores/wire/redis-target.js';
import { connectBy } from './test-client.js';
import { USUAL_OPTIONS } from './store-options.js';

const opened = new Set<RedisStore>();
const services = new Set<LockService>();

/** For tests that ask for much at once and are not about time: a machine with other work to do is no silent server. */
export const PATIENT: Partial<RedisStoreOptions> = { commandTimeoutMs: 10_000 };

export function makeRedisStore(connection: RedisTarget, process: string, options: Partial<RedisStoreOptions> = {}): RedisStore {
  const store = new RedisStore({ ...USUAL_OPTIONS, recoveryMs: 0, connection: connectBy(connection), process, ...options });
  opened.add(store);
  return store;
}

export async function openRedisStore(connection: RedisTarget, process: string, options: Partial<RedisStoreOptions> = {}): Promise<RedisStore> {
  const store = makeRedisStore(connection, process, options);
  await store.open();
  return store;
}

/** A process of that name, whose calls wait for a minute and whose holds nobody waits for at its end, unless `defaults` say otherwise. */
export async function openLocks(connection: RedisTarget, process: string, options: Partial<RedisStoreOptions> = {}, defaults: LockDefaults = {}): Promise<LockService> {
  const locks = new LockService({ store: makeRedisStore(connection, process, options), process, leaseMs: 30_000, waitMs: 60_000, shutdownGraceMs: 0, ...defaults });
  services.add(locks);
  await locks.open();
  return locks;
}

export async function closeStores(): Promise<void> {
  await Promise.all([...services].map((locks) => locks.close()));
  services.clear();
  for (const store of opened) await store.close();
  opened.clear();
}
