/**
 * From options to a store: the only file that knows every adapter.
 */
import type { Clock } from '../core/port/clock.js';
import { resolveDefaults } from '../core/port/lock-options.js';
import type { LockStore } from '../core/port/lock-store.js';
import type { Report } from '../core/port/report.js';
import { MemoryStore } from '../stores/memory/memory-store.js';
import { RedisStore } from '../stores/redis/redis-store.js';
import { RedlockStore } from '../stores/redlock/redlock-store.js';
import type { LockModuleOptions, Whereabouts } from './lock-module-options.js';

/** What a store gets from the application around it. */
interface StoreSurroundings {
  /** The name that holder ids start with. */
  readonly process: string;
  readonly clock: Clock;
  /** Gets what an operator must read. */
  readonly report: Report;
}

/** Where the locks of a module may live that has a store. */
type StoreWhereabouts = Exclude<Whereabouts, { kind: 'elsewhere' }>;

/** Makes the store; it connects when it is opened. @throws LockUsageError */
export function createStore(where: StoreWhereabouts, options: LockModuleOptions, around: StoreSurroundings): LockStore {
  const { maxLeaseMs, commandTimeoutMs } = resolveDefaults(options);
  if (where.kind === 'embedded') return new MemoryStore({ clock: around.clock, maxLeaseMs });
  const { prefix = 'lock', bootTimeoutMs = 10_000, strictServer = false } = options;
  const server = { ...around, prefix, maxLeaseMs, commandTimeoutMs, bootTimeoutMs, strictServer };
  if (where.kind === 'redis') return new RedisStore({ ...server, connection: where.target });
  return new RedlockStore({ ...server, nodes: where.targets });
}
