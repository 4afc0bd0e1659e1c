/**
 * LockModule: the module that an application imports. It checks options and decorators when the application starts, and ends
 * holds and closes the store when it stops.
 */
import {
  Inject, Logger, Module, Optional, type ConfigurableModuleAsyncOptions, type DynamicModule, type OnApplicationBootstrap,
  type OnApplicationShutdown, type OnModuleDestroy, type OnModuleInit,
} from '@nestjs/common';
import { ModuleRef, ModulesContainer } from '@nestjs/core';
import { LockUsageError } from '../core/port/errors.js';
import { LONGEST_MS, resolveDefaults } from '../core/port/options.js';
import type { LockStore } from '../core/port/lock-store.js';
import type { LockService } from '../lock.service.js';
import { checkAsyncOptions, checkShape, MODULE_DEFAULTS, ownOptions, type LockModuleOptions } from './lock-module-options.js';
import { checkRequest, stand, refuseTwins, retire, visitProviders, refuseUnreached, type Candidate } from './lock-boot.js';
import { INSTANCE_NAME, interceptorToken, lockModules, MODULE_OPTIONS, storeToken } from './lock-names.js';
import type { LockInterceptor } from './lock.interceptor.js';
import { orClose, ConfigurableModuleClass, type LockModuleExtras } from './lock-providers.js';

/** In place of the name of a lock module: the class was imported itself. No module has an empty name. */
const WITHOUT_FOR_ROOT = '';

/**
 * Locks for the whole application:
 *
 *     LockModule.forRoot({ redis: 'redis://localhost:6379' })
 *     LockModule.forRootAsync({
 *       inject: [ConfigService],
 *       useFactory: (config: ConfigService) => ({ redis: config.getOrThrow('REDIS_URL') }),
 *     })
 *
 * The boot fails with LockStoreError when Redis cannot be reached within `bootTimeoutMs` or refuses what locks need, and with
 * LockUsageError when options are unknown, invalid or contradict each other.
 */
@Module({})
export class LockModule extends ConfigurableModuleClass implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy, OnApplicationShutdown {
  private readonly logger = new Logger(LockModule.name);
  private readonly instance: string;
  private interceptor: LockInterceptor | undefined;
  private candidates: readonly Candidate[] = [];

  constructor(
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
    @Optional() @Inject(INSTANCE_NAME) instance: string | undefined,
  ) {
    super();
    this.instance = instance ?? WITHOUT_FOR_ROOT;
  }

  /** Makes the lock module from its options. */
  static override forRoot(options: LockModuleOptions & LockModuleExtras = {}): DynamicModule {
    checkShape(options);
    const { name, isGlobal } = options;
    return super.forRoot({ ...options, ...ownOptions(options), name, isGlobal });
  }

  /** Makes the lock module from options that a factory or a class gives when the application starts. */
  static override forRootAsync(options: ConfigurableModuleAsyncOptions<LockModuleOptions> & LockModuleExtras): DynamicModule {
    checkAsyncOptions(options);
    return super.forRootAsync(options);
  }

  onModuleInit(): Promise<void> {
    return orClose(this.modules, () => this.start());
  }

  /** Checks every decorator of the application, and gives objects their interceptors. @throws LockUsageError, LockStoreError */
  private start(): void {
    if (this.instance === WITHOUT_FOR_ROOT) {
      throw new LockUsageError(
        'LockModule is imported without forRoot, so it has no options. Call LockModule.forRoot({ redis: … }) once, in the root module: it is global, ' +
          'and other modules need no import.',
      );
    }
    refuseTwins(this.modules, this.instance);
    refuseUnreached(this.modules, this.instance);
    this.ownLocks()?.router?.open();
    const interceptor = this.single<LockInterceptor>(interceptorToken(this.instance));
    this.interceptor = interceptor;
    const options = this.single<LockModuleOptions>(MODULE_OPTIONS);
    const store = this.single<LockStore | null>(storeToken(this.instance));
    // With a route, the limits are those of the module that keeps the key, which is known only when a call has made its key.
    const limits = resolveDefaults(options.route ? { maxLeaseMs: LONGEST_MS, profiles: options.profiles } : options);
    const capabilities = options.route ? undefined : store?.capabilities;
    const boot = { instance: this.instance, interceptor, limits, capabilities };
    checkRequest('LockModule', boot, () => ({}));
    const { overrides, misread, candidates } = visitProviders(this.modules, boot);
    this.candidates = [...candidates.values()].flat();
    if (options.strictOverrides && overrides.size > 0) throw new LockUsageError([...overrides].join(' '));
    for (const warning of [...overrides, ...misread]) this.logger.warn(warning);
  }

  /** Leaders begin when all providers are initialized. */
  onApplicationBootstrap(): Promise<void> {
    const locks = this.ownLocks();
    if (locks) {
      beforeAllDestroyHooks(this.modules, () => locks.announceShutdown());
      beforeGlobalShutdownHooks(this.modules, () => this.holdsEnded());
    }
    const { describeHolders = MODULE_DEFAULTS.describeHolders } = this.single<LockModuleOptions>(MODULE_OPTIONS);
    return orClose(this.modules, () => {
      if (locks) for (const candidate of this.candidates) stand(candidate, locks, describeHolders);
    });
  }

  /**
   * Refuses new calls. Of a global module the hook is called after those of the application. Holds go on, so the store stays open until
   * onApplicationShutdown.
   */
  onModuleDestroy(): void {
    this.ownLocks()?.prepareShutdown();
  }

  async onApplicationShutdown(): Promise<void> {
    const all = await this.holdsEnded();
    // They are closed together, because each may wait for a server that does not answer, and Nest calls one of these hooks after the other.
    await Promise.all(all.map((locks) => locks.close()));
    if (this.interceptor) retire(this.interceptor);
  }

  /** Work inside a hold of one lock module may want locks of another one before it ends, so none is closed until then. */
  private async holdsEnded(): Promise<readonly LockService[]> {
    const all = [...lockModules(this.modules)].map(([, locks]) => locks);
    await Promise.all(all.map((locks) => locks.holdsEnded()));
    return all;
  }

  /** The provider of `token`. @throws LockUsageError when it is request-scoped, which would make every locked class so */
  private single<T>(token: symbol): T {
    try {
      return this.moduleRef.get<T>(token, { strict: true });
    } catch (cause) {
      throw new LockUsageError(
        `LockModule '${this.instance}' is request-scoped, because something that forRootAsync injects is. Every class ` +
          `with a locked method would be made anew for each request. Inject only singletons (not REQUEST) there.`,
        { cause },
      );
    }
  }

  /** The LockService of this module; undefined when a test has overridden it by an object of another class. */
  private ownLocks(): LockService | undefined {
    return new Map(lockModules(this.modules)).get(this.instance);
  }
}

type NestModule = NonNullable<ReturnType<ModulesContainer['get']>>;

// When an application shuts down, Nest calls the hooks of the root module first, then those of the modules that it imports, level by level, and
// those of global modules, as a lock module is, last. The distance to the root module is 0 in a module that was loaded later: Nest calls no hooks of it.

/**
 * Calls `act` when the application begins to shut down, before the first `onModuleDestroy` hook of the application: such a hook may wait
 * for work that ends only when a lock module tells it to. For that, the module whose hooks come first gets a provider.
 */
function beforeAllDestroyHooks(modules: ModulesContainer, act: () => void): void {
  const reached = [...modules.values()].filter(({ distance }) => distance > 0);
  const first = reached.reduce((nearest, module) => (module.distance <= nearest.distance ? module : nearest));
  addHook(first, { onModuleDestroy: act }, Number.MAX_SAFE_INTEGER);
}

/**
 * Calls `act` when all modules that are not global have shut down, as queues do, which take no more jobs then, and before a global one does, as the
 * connection to a database, which the work in holds needs. Among global modules the order of the imports would decide.
 */
function beforeGlobalShutdownHooks(modules: ModulesContainer, act: () => Promise<unknown>): void {
  const reached = [...modules.values()].filter(({ distance, isGlobal }) => distance > 0 && !isGlobal);
  const last = reached.reduce<NestModule | undefined>((farthest, module) => (farthest && module.distance <= farthest.distance ? farthest : module), undefined);
  if (last) addHook(last, { onApplicationShutdown: act }, Number.MIN_SAFE_INTEGER);
}

/** Nest 12 calls the hooks of a module level by level, the highest first. Nest 11 begins all of them at once. */
function addHook(module: NestModule, hook: object, level: number): void {
  const token = Symbol('nestjs-holdfast:shutdown');
  module.addProvider({ provide: token, useValue: hook });
  module.providers.get(token)!.hierarchyLevel = level;
}
