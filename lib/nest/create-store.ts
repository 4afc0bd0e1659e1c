/**
 * Makes the store that the options of a lock module ask for. This is the only file that imports every store.
 */
import type { Clock } from '../core/port/clock.js';
import { resolveDefaults } from '../core/port/options.js';
import type { LockStore } from '../core/port/lock-store.js';
import type { Report } from '../core/port/lock-events.js';
import { MemoryStore } from '../stores/memory/memory-store.js';
import { RedisStore } from '../stores/redis/redis-store.js';
import { RedlockStore } from '../stores/redlock/redlock-store.js';
import { connectTo } from '../stores/wire/connect-to.js';
import { MODULE_DEFAULTS, recoveryOf, type LockModuleOptions, type LockHome } from './lock-module-options.js';

/** What a store is given beside the options of the module. */
interface StoreSurroundings {
  /** The name of this process, with which its holder ids start. */
  readonly process: string;
  readonly clock: Clock;
  /** Receives the findings that an operator should read in the log. */
  readonly report: Report;
  /** NODE_ENV. */
  readonly environment: string | undefined;
}

/** Where the locks live, for a module that has a store: not one that only routes keys to other modules. */
type StoreHome = Exclude<LockHome, { kind: 'elsewhere' }>;

/** Makes the store, which connects only when `open` is called. Rejects with LockUsageError for options that are not valid. */
export async function createStore(where: StoreHome, options: LockModuleOptions, { environment, ...around }: StoreSurroundings): Promise<LockStore> {
  const { maxLeaseMs, commandTimeoutMs, minReplicas } = resolveDefaults(options);
  if (where.kind === 'embedded') return new MemoryStore({ clock: around.clock, maxLeaseMs });
  const { client, prefix = MODULE_DEFAULTS.prefix, bootTimeoutMs = MODULE_DEFAULTS.bootTimeoutMs, strictServer = MODULE_DEFAULTS.strictServer } = options;
  const server = { ...around, prefix, maxLeaseMs, commandTimeoutMs, bootTimeoutMs, strictServer };
  if (where.kind === 'redis') {
    const recoveryMs = recoveryOf(options, maxLeaseMs, environment);
    return new RedisStore({ ...server, minReplicas, recoveryMs, connection: await connectTo(where.target, client) });
  }
  return new RedlockStore({ ...server, nodes: await Promise.all(where.targets.map((target) => connectTo(target, client))) });
}
