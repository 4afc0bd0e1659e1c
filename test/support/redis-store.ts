/** Redis stores for tests, with the usual options; `closeStores` ends all that were opened. */
import { RedisStore, type RedisStoreOptions } from '../../lib/stores/redis/redis-store.js';
import type { RedisTarget } from '../../lib/stores/wire/redis-target.js';
import { connectBy } from './test-client.js';
import { USUAL_OPTIONS } from './store-options.js';

const opened = new Set<RedisStore>();

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

export async function closeStores(): Promise<void> {
  for (const store of opened) await store.close();
  opened.clear();
}
