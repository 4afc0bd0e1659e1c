/**
 * The options of a lock module, and their validation. The options that are defaults of calls are validated by
 * resolveDefaults, in core/port/options.ts.
 */
import type { LockUsageError } from '../core/port/errors.js';
import type { LockDefaults } from '../core/port/lock-options.js';
import {
  checkOptions, expecting, flag, invalidOption, lockDefaultNames, oneOf, shapeProblem, type NamesOf, type OptionList, whole,
} from '../core/port/options.js';
import type { ClientPackage, RedisTarget } from '../stores/wire/redis-target.js';
import { checkPrefix } from '../stores/wire/redis-keys.js';
import { targetProblem } from './redis-option.js';
import type { ASYNC_OPTIONS_TYPE } from './lock-providers.js';

/** Types of the option `redis`. They are exported here because lib/index.ts must not import from stores/. */
export type { ClusterTarget, RedisTarget } from '../stores/wire/redis-target.js';

/** Options of LockModule.forRoot: where the locks live, and defaults for all calls. */
export interface LockModuleOptions extends LockDefaults {
  /**
   * A URL, options in the words of ioredis (Sentinel too), `{ cluster: [...] }`, a client of ioredis or node-redis, or an array of
   * those: an odd number, at least three, of independent masters for Redlock. A client that is given is never used, closed or
   * reconfigured: it only says how to connect.
   * @default none: one of `redis`, `embedded` and `route` must be given, unless no option is given at all (see `embedded`)
   */
  redis?: RedisTarget | readonly RedisTarget[] | undefined;
  /**
   * The package that makes the connections for a URL or for options in `redis`: 'ioredis', or 'redis' (node-redis). A client that is
   * given in `redis` decides that itself.
   * @default the one that is installed; 'ioredis' if both are
   */
  client?: ClientPackage | undefined;
  /**
   * true: the locks live in this process only, for tests and for applications that run as one process. `forRoot()`
   * without any option means the same, writes a line to the log, and throws when NODE_ENV is production.
   * @default false
   */
  embedded?: boolean | undefined;
  /**
   * The start of every Redis key and channel of this module. The keyPrefix of a client is not used.
   * @default 'lock'
   */
  prefix?: string | undefined;
  /**
   * Gives for each key the `name` of the lock module that keeps it ('default' is the module without a name), so that locks
   * are spread over several Redis servers. It must give the same name in every process. All keys of one call must go to
   * one module, else the call rejects with LockUsageError. Defaults and limits are those of the module that keeps the key.
   * @default none
   */
  route?: ((key: string) => string) | undefined;
  /**
   * How long the module tries to reach Redis at boot, in ms. After that the boot fails with LockStoreError.
   * @default 10000
   */
  bootTimeoutMs?: number | undefined;
  /**
   * For how long a Redis that may have forgotten what it granted (it was restarted, replaced by a failover, or flushed) grants
   * nothing new, in ms, while all processes tell it what they hold. `'lease'` means `maxLeaseMs`: then no earlier lease can be
   * trusted any more when something new is granted. 0: nothing waits, nothing is brought back, and two may hold a lock until the first one's
   * next renewal. At most `maxLeaseMs`. Where processes have different values, the longest counts of those that reach the server before it
   * grants anything new; one with 0 that comes first opens it at once. A Redlock has its quarantine instead.
   * @default 1000; 0 where NODE_ENV is test, because test suites flush their Redis
   */
  recoveryMs?: number | 'lease' | undefined;
  /**
   * Whether host, process id, class and method of a holder are written to Redis, where operators and error messages can
   * name them. A `label` that a call gives is written with false too.
   * @default true
   */
  describeHolders?: boolean | undefined;
  /**
   * true: the boot fails when the server's maxmemory-policy is not noeviction, because it could evict locks. false: an
   * error is written to the log.
   * @default false
   */
  strictServer?: boolean | undefined;
  /**
   * true: the boot fails when a subclass overrides a locked method without a lock decorator. false: a
   * warning is written to the log. Modules that are loaded later (LazyModuleLoader) are not looked at.
   * @default false
   */
  strictOverrides?: boolean | undefined;
}

/** The names of all options. An unknown name is refused, because a misspelt option would silently mean the default. */
const names: NamesOf<LockModuleOptions> = {
  ...lockDefaultNames,
  redis: true,
  client: oneOf('ioredis', 'redis'),
  embedded: flag,
  prefix: true,
  route: expecting('a function of the key', (route) => typeof route === 'function'),
  bootTimeoutMs: whole(1, Infinity),
  recoveryMs: (name, value, most) => (value === 'lease' ? undefined : whole(0, Infinity, "'lease' stands for maxLeaseMs")(name, value, most)),
  describeHolders: flag,
  strictServer: flag,
  strictOverrides: flag,
};
const OF = 'LockModule options';
export const OPTIONS: OptionList = { names, example: '{ redis: process.env.REDIS_URL }', of: OF };
/** The options that have a meaning for a module that has only a route and keeps no locks itself. */
const OF_A_ROUTE: readonly string[] = ['route', 'embedded', 'describeHolders', 'strictOverrides', 'profiles'];

/** The defaults of the options that only a module has. Those of calls are in core/port/options.ts. */
export const MODULE_DEFAULTS = {
  prefix: 'lock',
  bootTimeoutMs: 10_000,
  /** By then every process that the server's message reached, or that connected anew, has said what it holds. */
  recoveryMs: 1_000,
  describeHolders: true,
  strictServer: false,
} as const satisfies LockModuleOptions;

/** Where the locks of a module live. `implied`: no option said so. */
export type LockHome =
  | { readonly kind: 'embedded'; readonly implied: boolean }
  | { readonly kind: 'redis'; readonly target: RedisTarget }
  | { readonly kind: 'redlock'; readonly targets: readonly RedisTarget[] }
  /** The module has only a route: every key is kept by another module. */
  | { readonly kind: 'elsewhere' };

/** Checks the options against each other and says where the locks live. @throws LockUsageError */
export function lockHome(given: LockModuleOptions, environment: string | undefined): LockHome {
  checkEach(given);
  const options = ownOptions(given);
  // A URL that is not set chooses nothing beside `embedded: true`.
  if ('redis' in options && !(options.redis === undefined && options.embedded === true)) return redisOf(options);
  if (options.embedded === true) return { kind: 'embedded', implied: false };
  if (options.route !== undefined) return elsewhere(options);
  if (Object.values(options).some((value) => value !== undefined)) {
    throw refused('no option says where the locks live. Give redis, embedded: true (locks in this process only), or route');
  }
  if (environment === 'production') {
    throw refused(
      'without options the locks would live in this process only, and NODE_ENV is production. Give redis, or embedded: true if you mean that',
    );
  }
  return { kind: 'embedded', implied: true };
}

/** The options as own properties of a plain object. They may be an instance of a class with getters, which spreading would lose. */
export function ownOptions(options: LockModuleOptions): LockModuleOptions {
  const given = Object.keys(names).filter((name) => name in options);
  return Object.fromEntries(given.map((name) => [name, options[name as keyof LockModuleOptions]]));
}

/**
 * Refuses options that are no object. It is called before Nest copies the options by spreading them, which would make options
 * named 0, 1, 2 of a bare URL. @throws LockUsageError
 */
export function checkShape(options: unknown): void {
  // Its options would count as none, and locks would live in this process only.
  if (options instanceof Promise) throw refused('they are a promise. Await it, or give forRootAsync a useFactory that returns it');
  const problem = shapeProblem(options, OPTIONS);
  if (problem !== undefined) throw refused(problem);
}

function checkEach(options: LockModuleOptions): void {
  checkOptions(options, OPTIONS);
  if (options.prefix !== undefined) checkPrefix(options.prefix);
}

function redisOf({ redis, embedded }: LockModuleOptions): LockHome {
  if (embedded === true) throw refused('redis and embedded: true contradict each other');
  const given = Array.isArray(redis) ? redis.map((each, n) => [`redis[${n}]`, each] as const) : [['redis', redis] as const];
  if (given.length === 0) throw refused('redis was given, but it is an empty list; look whether an environment variable is missing');
  for (const [name, target] of given) {
    const problem = targetProblem(name, target);
    if (problem !== undefined) throw refused(problem);
  }
  if (Array.isArray(redis)) {
    // It is refused before any server is asked, because a server that is asked as a node grants nothing alone from then on.
    const second = redis.findIndex((target, n) => redis.indexOf(target) < n);
    if (second >= 0) throw refused(`redis[${second}] is the same as redis[${redis.indexOf(redis[second])}], and each node of a Redlock must be a master of its own`);
    return { kind: 'redlock', targets: redis };
  }
  return { kind: 'redis', target: redis as RedisTarget };
}

/** Refuses options that a module without a store would ignore: limits and defaults are those of the module that keeps the key. */
function elsewhere(options: LockModuleOptions): LockHome {
  const idle = Object.entries(options).find(([name, value]) => value !== undefined && !OF_A_ROUTE.includes(name));
  if (!idle) return { kind: 'elsewhere' };
  throw refused(`${idle[0]} would be ignored, because this module has only a route and keeps no locks. Give it to the lock modules that the route leads to`);
}

function refused(problem: string): LockUsageError {
  return invalidOption(problem, undefined, OF);
}

/** For how long a Redis that forgot grants nothing new, in ms. @throws LockUsageError */
export function recoveryOf({ recoveryMs }: LockModuleOptions, maxLeaseMs: number, environment: string | undefined): number | 'lease' {
  if (recoveryMs === undefined) return environment === 'test' ? 0 : Math.min(MODULE_DEFAULTS.recoveryMs, maxLeaseMs);
  if (recoveryMs !== 'lease' && recoveryMs > maxLeaseMs) throw refused(`recoveryMs (${recoveryMs}) is longer than maxLeaseMs (${maxLeaseMs}); 'lease' is the longest that can be of use`);
  return recoveryMs;
}

// What LockModule.forRootAsync is given: one of three ways to get the options of the module when the application starts.

const asyncNames: NamesOf<typeof ASYNC_OPTIONS_TYPE> = {
  imports: true,
  inject: true,
  provideInjectionTokensFrom: true,
  useFactory: expecting('a function', (factory) => typeof factory === 'function'),
  useClass: expecting('a class', (options) => typeof options === 'function'),
  useExisting: true,
  isGlobal: true,
  name: true,
};
const ASYNC_OPTIONS: OptionList = { names: asyncNames, example: '{ useFactory: () => ({ redis: process.env.REDIS_URL }) }', of: 'LockModule.forRootAsync' };
/** The ways to get the options. */
const WAYS = ['useFactory', 'useClass', 'useExisting'] as const;

/** Checks what forRootAsync was given, because Nest would fail with words about its own inside. @throws LockUsageError */
export function checkAsyncOptions(given: typeof ASYNC_OPTIONS_TYPE): void {
  checkOptions(given, ASYNC_OPTIONS);
  const ways = WAYS.filter((name) => given[name] !== undefined);
  if (ways.length !== 1) throw invalidOption(`expected one of useFactory, useClass and useExisting, got ${ways.join(' and ') || 'none'}`, undefined, ASYNC_OPTIONS.of);
}
