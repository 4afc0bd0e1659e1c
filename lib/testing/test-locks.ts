/**
 * Locks for tests of applications: real exclusion in this process, no Redis, no waiting in real time, and every fault on
 * demand.
 *
 *     const locks = new TestLocks();
 *     const app = await locks.replaceIn(Test.createTestingModule({ imports: [AppModule] })).compile();
 *     await locks.busy('order:1');
 *     await expect(app.get(OrderService).pay('1')).rejects.toThrow(LockTimeoutError);   // at once
 */
import type { DynamicModule, FactoryProvider } from '@nestjs/common';
import { LockStoreError } from '../core/port/errors.js';
import type { LockDefaults } from '../core/port/lock-options.js';
import { LockService, type LockServiceOptions } from '../lock.service.js';
import { DEFAULT_INSTANCE, locksToken, MODULE_OPTIONS, storeToken } from '../nest/lock-names.js';
import type { LockModuleOptions } from '../nest/lock-module-options.js';
import { LockModule } from '../nest/lock.module.js';
import { TestStore, type BusyOptions } from './test-store.js';
import { TestWire } from './test-wire.js';

/** The defaults of {@link TestLocks.locks} and {@link TestLocks.asModule}. */
export interface TestLocksOptions extends LockDefaults {
  /**
   * The `name` of the LockModule that these locks stand for.
   * @default the module without a name
   */
  name?: string | undefined;
}

/** What {@link TestLocks.replaceIn} needs of the builder that `Test.createTestingModule` gives. */
export interface OverridesProviders {
  overrideProvider(token: unknown): { useFactory(by: { factory: FactoryProvider['useFactory']; inject: unknown[] }): unknown };
}

export class TestLocks {
  private readonly store = new TestStore();
  private readonly name: string;
  private readonly defaults: LockDefaults;
  private own: LockService | undefined;
  private processes = 0;

  constructor({ name = DEFAULT_INSTANCE, ...defaults }: TestLocksOptions = {}) {
    this.name = name;
    this.defaults = defaults;
  }

  /**
   * A LockService of its own on the same store, as another instance of the application has it: to be handed to a class
   * that is tested without Nest, or for the test to hold a lock itself: `const lease = await test.locks.acquire('order:1')`.
   */
  get locks(): LockService {
    this.own ??= this.service(this.wire(), this.defaults);
    return this.own;
  }

  /** A LockModule on this store: `Test.createTestingModule({ imports: [locks.asModule()], providers: [OrderService] })`. */
  asModule(): DynamicModule {
    const module = LockModule.forRoot({ embedded: true, ...this.defaults, name: this.name });
    return { ...module, providers: [...(module.providers ?? []), ...this.providers()] };
  }

  /**
   * Puts this store into the LockModule that the application imports, which keeps its options and does not connect to Redis.
   * Several applications may be built on one store, as several instances of a fleet.
   */
  replaceIn<B extends OverridesProviders>(builder: B): B {
    for (const { provide, useFactory, inject = [] } of this.providers()) {
      builder.overrideProvider(provide).useFactory({ factory: useFactory, inject });
    }
    return builder;
  }

  /**
   * Somebody elsewhere holds the lock. Calls that wait for it need no real time: they are refused when their `waitMs` is over
   * on the locks' clock. @throws LockUsageError when the lock is held
   */
  busy(key: string, options: BusyOptions = {}): Promise<void> {
    return this.store.makeBusy(key, options);
  }

  /** Ends {@link busy}. */
  free(key: string): Promise<void> {
    return this.store.free(key);
  }

  /**
   * The lease of this key is lost: when this resolves, its signal has aborted, and its release will answer 'lost'.
   * @throws LockUsageError when no application of the test holds it
   */
  lose(key: string): Promise<void> {
    return this.store.lose(key);
  }

  /** From now on the store does not answer: calls end with LockStoreError when their `waitMs` is over, without real time. */
  storeDown(): void {
    this.store.outage ??= new LockStoreError('The store is down, because the test took it down (storeDown).');
  }

  /** Ends {@link storeDown}. What is locked stayed locked. */
  storeBack(): void {
    this.store.outage = undefined;
    this.store.stir();
  }

  /**
   * Lets so many whole milliseconds pass for the locks, and only for them: leases end or are renewed, waits end, minHoldMs
   * passes. What lasts `ms` is over then. @throws LockUsageError for what is no such number
   */
  advance(ms: number): Promise<void> {
    return this.store.clock.advance(ms);
  }

  private providers(): FactoryProvider[] {
    const { name } = this;
    return [
      { provide: storeToken(name), inject: [], useFactory: () => this.wire() },
      {
        provide: locksToken(name),
        inject: [MODULE_OPTIONS, storeToken(name)],
        useFactory: async (options: LockModuleOptions, wire: TestWire) => {
          const locks = this.service(wire, options);
          await locks.open();
          return locks;
        },
      },
    ];
  }

  private wire(): TestWire {
    return new TestWire(this.store, `test${(this.processes += 1)}`);
  }

  private service(wire: TestWire, defaults: LockDefaults): LockService {
    return new TestLockService({ ...defaults, store: wire, process: wire.process, clock: this.store.clock }, this.store);
  }
}

/** Its end takes no real time: work that still runs is told at once, as after shutdownGraceMs. */
class TestLockService extends LockService {
  constructor(
    options: LockServiceOptions,
    private readonly shared: TestStore,
  ) {
    super(options);
  }

  override close(): Promise<void> {
    return this.shared.passUntil(super.close());
  }
}
