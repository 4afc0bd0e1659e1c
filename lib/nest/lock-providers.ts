/**
 * The providers of one lock module. Each is made of the one before: options, store, LockService, LockInterceptor.
 */
import { Logger, ConfigurableModuleBuilder, type FactoryProvider, type InjectionToken, type Provider } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { systemClock } from '../core/port/clock.js';
import { LockStoreError } from '../core/port/errors.js';
import type { LockStore, StoreSummary } from '../core/port/lock-store.js';
import { checkOptions, completeProfiles, expecting, flag, type NamesOf, type OptionList, resolveDefaults } from '../core/port/options.js';
import type { Report } from '../core/port/lock-events.js';
import { LockRouter, LockService } from '../lock.service.js';
import { logReports } from './lock-log.js';
import { lockHome, MODULE_DEFAULTS, ownOptions, recoveryOf, type LockModuleOptions, type LockHome } from './lock-module-options.js';
import { INSTANCE_NAME, interceptorToken, lockModules, locksToken, MODULE_OPTIONS, storeToken, DEFAULT_INSTANCE, servicesOfOtherCopies } from './lock-names.js';
import { LockInterceptor } from './lock.interceptor.js';
import { MemoryStore } from '../stores/memory/memory-store.js';
import { RedisStore, type RedisStoreOptions } from '../stores/redis/redis-store.js';
import { RedlockStore } from '../stores/redlock/redlock-store.js';
import { connectTo } from '../stores/wire/connect-to.js';
import { UNTIL_TOLD_MS } from '../stores/wire/redis-keys.js';
import { randomInt } from 'node:crypto';
import { hostname } from 'node:os';

/** The token of what the store and the LockService share. It is not exported from the lock module. */
const SHARED = Symbol.for('nestjs-holdfast:shared');

interface Shared {
  /** The name of this process in holder ids. */
  readonly process: string;
  /** Writes what belongs into the log. */
  readonly report: Report;
}

/** The providers of the lock module named `instance`, and the tokens that it exports. */
function lockProviders(instance: string): { providers: Provider[]; exports: InjectionToken[] } {
  const named = { provide: INSTANCE_NAME, useValue: instance };
  const others = instance === DEFAULT_INSTANCE ? servicesOfOtherCopies() : [];
  const exported = [storeProvider(instance), locksProvider(instance), interceptorProvider(instance), ...others];
  return { providers: [named, sharedProvider, ...exported], exports: exported.map(({ provide }) => provide) };
}

const sharedProvider: FactoryProvider<Shared> = {
  provide: SHARED,
  inject: [MODULE_OPTIONS],
  // The options can be undefined here, when useFactory returned nothing: the store's provider then throws an error that says so.
  useFactory: (options: LockModuleOptions | undefined) => ({
    process: processName(options?.describeHolders ?? MODULE_DEFAULTS.describeHolders),
    report: logReports(new Logger('LockModule'), systemClock),
  }),
};

/**
 * The store has a provider of its own, so that tests can override it. It is null for a module that routes every key to other
 * modules.
 */
function storeProvider(instance: string): FactoryProvider<Promise<LockStore | null>> {
  return {
    provide: storeToken(instance),
    inject: [MODULE_OPTIONS, SHARED, ModulesContainer],
    useFactory: (options: LockModuleOptions, shared: Shared, modules: ModulesContainer) =>
      orRefuse(modules, () => {
        const environment = globalThis.process.env['NODE_ENV'];
        const where = lockHome(options, environment);
        if (where.kind === 'elsewhere') return null;
        if (where.kind === 'embedded') new Logger('LockModule').log(embeddedLine(where.implied));
        return createStore(where, options, { ...shared, clock: systemClock }, environment);
      }),
  };
}

/**
 * The LockService is opened while Nest makes the providers: so a store that cannot serve fails the boot, and locks can be
 * taken from `onModuleInit` on.
 */
function locksProvider(instance: string): FactoryProvider<Promise<LockService>> {
  return {
    provide: locksToken(instance),
    inject: [MODULE_OPTIONS, SHARED, storeToken(instance), ModulesContainer],
    useFactory: (options: LockModuleOptions, shared: Shared, store: LockStore | null, modules: ModulesContainer): Promise<LockService> =>
      orRefuse(modules, async () => {
        const router = options.route && new LockRouter(options.route, completeProfiles(options.profiles), () => lockModules(modules));
        const locks = await openFor(modules, new LockService({ ...ownOptions(options), ...shared, store, instance, router }));
        if (store instanceof RedisStore) refuseVoter(store);
        if (store?.summary) new Logger('LockModule').log(bootLine(instance, store.summary));
        return locks;
      }),
  };
}

/**
 * A server that was given as a node of a Redlock, and may not vote yet, waits for the other nodes as long as it has its data: given alone, it
 * would refuse every lock as `recovering`. @throws LockStoreError
 */
function refuseVoter({ server: node, recovery, redis: { keys: { prefix } } }: RedisStore): void {
  if (recovery.recoversForMs < UNTIL_TOLD_MS / 2) return;
  const message =
    `Locks: ${node} was given as a node of a Redlock, and waits for the other nodes until it may vote. Give redis all nodes, or another prefix; ` +
    `or stop all processes and delete the keys {${prefix}:*}:f of this server, which then keeps locks alone.`;
  throw new LockStoreError(message, { retryable: false, nodes: [{ node, reason: 'waits to vote in a Redlock' }] });
}

function interceptorProvider(instance: string): FactoryProvider<LockInterceptor> {
  return {
    provide: interceptorToken(instance),
    inject: [locksToken(instance), MODULE_OPTIONS],
    useFactory: (locks: LockService, { describeHolders, profiles }: LockModuleOptions) =>
      new LockInterceptor(locks, describeHolders, completeProfiles(profiles)),
  };
}

// The class with forRoot and forRootAsync that LockModule extends, and the extras that both methods take beside the options.

/** Options that Nest must know before a factory makes the others. They are given beside `useFactory`, not in its result. */
export interface LockModuleExtras {
  /**
   * Whether every module of the application can inject the locks without importing LockModule.
   * @default true
   */
  isGlobal?: boolean | undefined;
  /**
   * The name of this instance of LockModule, for `@InjectLocks(name)` and the option `instance` of the decorators.
   * @default 'default', the instance that is used where no name is given
   */
  name?: string | undefined;
}

const names: NamesOf<LockModuleExtras> = { isGlobal: flag, name: expecting('a text that is not empty', (name) => typeof name === 'string' && name !== '') };
const EXTRAS: OptionList = { names, example: '{ isGlobal: false }', of: 'LockModule' };

export const { ConfigurableModuleClass, OPTIONS_TYPE, ASYNC_OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<LockModuleOptions>({ optionsInjectionToken: MODULE_OPTIONS })
    .setClassMethodName('forRoot')
    .setExtras<LockModuleExtras>({ isGlobal: true, name: DEFAULT_INSTANCE }, (definition, { isGlobal = true, name = DEFAULT_INSTANCE }) => {
      checkOptions({ isGlobal, name }, EXTRAS);
      const { providers, exports } = lockProviders(name);
      return { ...definition, global: isGlobal, providers: [...(definition.providers ?? []), ...providers], exports };
    })
    .build();

// Makes the store that the options of a lock module ask for. This is the only file that imports every store.

/** Makes the store, which connects only when `open` is called. Rejects with LockUsageError for options that are not valid. `environment`: NODE_ENV. */
async function createStore(
  where: Exclude<LockHome, { kind: 'elsewhere' }>,
  options: LockModuleOptions,
  around: Pick<RedisStoreOptions, 'process' | 'clock' | 'report'>,
  environment: string | undefined,
): Promise<LockStore> {
  const { maxLeaseMs, commandTimeoutMs, minReplicas } = resolveDefaults(options);
  if (where.kind === 'embedded') return new MemoryStore(around.clock);
  const { client, prefix = MODULE_DEFAULTS.prefix, bootTimeoutMs = MODULE_DEFAULTS.bootTimeoutMs, strictServer = MODULE_DEFAULTS.strictServer } = options;
  const server = { ...around, prefix, maxLeaseMs, commandTimeoutMs, bootTimeoutMs, strictServer };
  if (where.kind === 'redis') {
    const recoveryMs = recoveryOf(options, maxLeaseMs, environment);
    return new RedisStore({ ...server, minReplicas, recoveryMs, connection: await connectTo(where.target, client) });
  }
  return new RedlockStore({ ...server, nodes: await Promise.all(where.targets.map((target) => connectTo(target, client))) });
}

// The line in the log with which a lock module starts: where its locks are kept, and what guards them there.

function bootLine(instance: string, { place, prefix, off, unknown }: StoreSummary): string {
  const whose = instance === DEFAULT_INSTANCE ? 'Locks' : `Locks of the module '${instance}'`;
  const switchedOff = off.length === 0 ? '' : ` Without: ${off.join('; ')}.`;
  const untold = unknown === undefined ? '' : ` Not known: ${unknown}.`;
  return `${whose} are kept by ${place}, prefix '${prefix}'.${switchedOff}${untold}`;
}

/** The line of a module whose locks no server keeps. `implied`: no option said so. */
function embeddedLine(implied: boolean): string {
  if (!implied) return 'Locks live in this process only (embedded: true).';
  return 'Locks live in this process only. Give redis to lock across processes, or embedded: true if this is meant.';
}

// The name of this process in holder ids and channels. It is short, because it is stored in every lock; it contains host and
// pid, so that an operator can find the holder; and it ends with random characters, so that no two processes have the same.

/** The longest part of the host name that is kept, in characters: its end, because pods of one deployment differ there. */
const LONGEST_HOST = 16;

/** Makes a new name: `host:pid:random`, or only the random part when `describe` is false. */
function processName(describe: boolean): string {
  const random = randomInt(36 ** 8).toString(36).padStart(8, '0');
  return describe ? `${shortHost(hostname())}:${process.pid}:${random}` : random;
}

/** The end of a host name, without characters that mean something in a holder id. */
function shortHost(host: string): string {
  return host.replace(/[^A-Za-z0-9-]/g, '-').slice(-LONGEST_HOST);
}

// A boot that is refused leaves no connection open: whoever boots gets no application that could be closed, and open connections would keep
// the process alive. Nest makes the providers of several lock modules side by side, so each opens its connections without knowing whether
// another one is about to fail.

/** The lock modules of one application, until all of its providers are made. */
interface Boot {
  readonly opened: Set<LockService>;
  refused: boolean;
  /** A module that is loaded later may fail without an end of the others. */
  isComplete: boolean;
}

const boots = new WeakMap<ModulesContainer, Boot>();

function bootOf(modules: ModulesContainer): Boot {
  let boot = boots.get(modules);
  if (boot === undefined) boots.set(modules, (boot = { opened: new Set(), refused: false, isComplete: false }));
  return boot;
}

/** Opens the connections of one lock module. When that fails, or another lock module has failed meanwhile, they are closed. */
async function openFor(modules: ModulesContainer, locks: LockService): Promise<LockService> {
  const boot = bootOf(modules);
  try {
    await locks.open();
  } catch (error) {
    await closed([locks]);
    throw error;
  }
  boot.opened.add(locks);
  // Nest reports the error of the other module, and waits for nothing here.
  if (boot.refused && !boot.isComplete) await closed(boot.opened);
  return locks;
}

/** Makes one provider of a lock module. When that fails, what other lock modules have opened is closed. */
async function orRefuse<T>(modules: ModulesContainer, make: () => T | Promise<T>): Promise<T> {
  try {
    return await make();
  } catch (error) {
    if (!bootOf(modules).isComplete) await refuse(modules);
    throw error;
  }
}

/** Runs a hook of the boot, which begins when all providers are made. When it fails, all lock modules are closed. */
export async function orClose(modules: ModulesContainer, hook: () => void | Promise<void>): Promise<void> {
  bootOf(modules).isComplete = true;
  try {
    await hook();
  } catch (error) {
    await refuse(modules);
    throw error;
  }
}

async function refuse(modules: ModulesContainer): Promise<void> {
  const boot = bootOf(modules);
  boot.refused = true;
  await closed(boot.opened);
}

/** A close that fails must not hide why the boot did. */
async function closed(all: Iterable<LockService>): Promise<void> {
  await Promise.allSettled([...all].map((locks) => locks.close()));
}
