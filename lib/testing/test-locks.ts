/**
 * Locks for tests of applications. They exclude calls in this process as the real ones do, without Redis and without waiting in real
 * time, and the test can cause every fault.
 *
 *     const locks = new TestLocks();
 *     const app = await locks.replaceIn(Test.createTestingModule({ imports: [AppModule] })).compile();
 *     await locks.busy('order:1');
 *     await expect(app.get(OrderService).pay('1')).rejects.toThrow(LockTimeoutError);   // at once
 */
import type { DynamicModule, FactoryProvider } from '@nestjs/common';
import { checkKey } from '../core/key/check-key.js';
import { LockStoreError, LockUsageError } from '../core/port/errors.js';
import type { LockDefaults, LockMode } from '../core/port/lock-options.js';
import { checkOptions, isMode, lockDefaultNames, LONGEST_MS, type NamesOf, type OptionList, whole } from '../core/port/options.js';
import { LockService, type LockServiceOptions } from '../lock.service.js';
import { DEFAULT_INSTANCE, locksToken, MODULE_OPTIONS, storeToken } from '../nest/lock-names.js';
import { ownOptions, type LockModuleOptions } from '../nest/lock-module-options.js';
import { LockModule } from '../nest/lock.module.js';
import { TestStore } from './test-store.js';
import { TestWire } from './test-wire.js';

/** Options of {@link TestLocks}: the defaults of {@link TestLocks.locks} and {@link TestLocks.asModule}. */
export interface TestLocksOptions extends LockDefaults {
  /**
   * The `name` of the LockModule that these locks replace.
   * @default the module without a name
   */
  name?: string | undefined;
}

const names: NamesOf<TestLocksOptions> = { ...lockDefaultNames, name: true };
const OPTIONS: OptionList = { names, example: '{ waitMs: 0 }', of: 'TestLocks' };

/** How {@link TestLocks.busy} holds a lock. */
export interface BusyOptions {
  /**
   * The mode in which the lock is held.
   * @default 'write'
   */
  mode?: LockMode | undefined;
  /**
   * How long the lock is busy, in ms on the clock of the locks. A call that waits for longer gets the lock then.
   * @default until it is freed
   */
  forMs?: number | undefined;
}

const busyNames: NamesOf<BusyOptions> = { mode: isMode, forMs: whole(0, LONGEST_MS) };

/** What {@link TestLocks.replaceIn} needs of the builder that `Test.createTestingModule` returns. */
export interface OverridesProviders {
  overrideProvider(token: unknown): { useFactory(by: { factory: FactoryProvider['useFactory']; inject: unknown[] }): unknown };
  compile(...options: never[]): Promise<unknown>;
}

/** Locks for tests, without Redis. Their time and their faults are controlled by the test. */
export class TestLocks {
  private readonly shared = new TestStore();
  private readonly name: string;
  private readonly defaults: LockDefaults;
  private own: LockService | undefined;
  private processes = 0;
  /** True if an application has got this store. */
  private isProvided = false;
  /** True if an application was made in which {@link replaceIn} should have replaced a store. */
  private isBuilt = false;

  /** @throws LockUsageError for an unknown option */
  constructor(options: TestLocksOptions = {}) {
    checkOptions(options, OPTIONS);
    const { name = DEFAULT_INSTANCE, ...defaults } = options;
    this.name = name;
    this.defaults = defaults;
  }

  /**
   * A LockService on the same store, like that of another instance of the application. Give it to a class that is tested without
   * Nest, or use it to hold a lock in the test itself: `const lease = await test.locks.acquire('order:1')`.
   */
  get locks(): LockService {
    this.own ??= this.service(this.wire(), this.defaults);
    return this.own;
  }

  /** Makes a LockModule on this store: `Test.createTestingModule({ imports: [locks.asModule()], providers: [OrderService] })`. */
  asModule(): DynamicModule {
    const module = LockModule.forRoot({ embedded: true, ...this.defaults, name: this.name });
    return { ...module, providers: [...(module.providers ?? []), ...this.providers()] };
  }

  /**
   * Puts this store into the LockModule that the application imports. The module keeps its options and does not connect to Redis.
   * Several applications may be built on one store, like several instances of one application. When the application has no LockModule
   * of this name, {@link busy} and all that acts on the store is a LockUsageError from when the application is compiled.
   */
  replaceIn<B extends OverridesProviders>(builder: B): B {
    for (const { provide, useFactory, inject = [] } of this.providers()) {
      builder.overrideProvider(provide).useFactory({ factory: useFactory, inject });
    }
    // Nest overrides nothing, without a word, where there is no such provider. Only the end of compile() shows that.
    const { compile } = builder;
    const noting = async (...options: never[]): Promise<unknown> => {
      const module = await Reflect.apply(compile, builder, options);
      this.isBuilt = true;
      return module;
    };
    return Object.assign(builder, { compile: noting });
  }

  /**
   * Makes the lock busy, as if another process held it. Calls that wait for it take no real time: they are refused when their
   * `waitMs` is over on the clock of the locks. @throws LockUsageError when the lock is held
   */
  async busy(key: string, options: BusyOptions = {}): Promise<void> {
    const { store } = this;
    checkKey(key);
    checkOptions(options, { names: busyNames, example: '{ forMs: 5000 }', of: `TestLocks.busy('${key}')` }, key);
    const { mode = 'write', forMs = LONGEST_MS } = options;
    return store.makeBusy(key, mode, forMs);
  }

  /** Frees a lock that {@link busy} made busy. */
  async free(key: string): Promise<void> {
    return this.store.free(key);
  }

  /**
   * Makes the lease of this key lost: when this resolves, its signal has aborted, and its release will resolve with 'lost'.
   * @throws LockUsageError when no application of the test holds the lock, or the store is down
   */
  async lose(key: string): Promise<void> {
    return this.store.lose(key);
  }

  /**
   * Makes a ticket too late, as if nobody had brought it within its `withinMs`: `adopt` rejects with LockLostError, and the lock is free
   * for the next. Time does not pass. @throws LockUsageError when the ticket is damaged or was adopted, or the store is down
   */
  async makeLate(ticket: string): Promise<void> {
    return this.store.makeLate(ticket);
  }

  /** Takes the store down: from now on calls reject with LockStoreError when their `waitMs` is over, which takes no real time. */
  storeDown(): void {
    this.store.outage ??= new LockStoreError('The store is down, because the test took it down (storeDown).');
  }

  /** Ends {@link storeDown}. Locks that were held before are held still. */
  storeBack(): void {
    this.store.goUp();
  }

  /**
   * Lets `ms` whole milliseconds pass on the clock of the locks, and on no other: leases end or are renewed, waits end, minHoldMs
   * passes. A time of exactly `ms` is over then. @throws LockUsageError when `ms` is not a whole number from 0
   */
  async advance(ms: number): Promise<void> {
    return this.store.clock.advance(ms);
  }

  /** The store on which the test stages something. @throws LockUsageError when no application has it, although one should */
  private get store(): TestStore {
    if (!this.isBuilt || this.isProvided) return this.shared;
    const missing = this.name === DEFAULT_INSTANCE ? 'without a name' : `with the name '${this.name}'`;
    throw new LockUsageError(
      `TestLocks: the application has no LockModule ${missing}, so these locks replace nothing in it. Give the name of its LockModule: ` +
        `new TestLocks({ name: '…' }).`,
    );
  }

  private providers(): FactoryProvider[] {
    const { name } = this;
    return [
      {
        provide: storeToken(name),
        inject: [],
        useFactory: () => {
          this.isProvided = true;
          return this.wire();
        },
      },
      {
        provide: locksToken(name),
        inject: [MODULE_OPTIONS, storeToken(name)],
        useFactory: async (options: LockModuleOptions, wire: TestWire) => {
          const locks = this.service(wire, ownOptions(options));
          await locks.open();
          return locks;
        },
      },
    ];
  }

  private wire(): TestWire {
    return new TestWire(this.shared, `test${(this.processes += 1)}`);
  }

  private service(wire: TestWire, defaults: LockDefaults): LockService {
    return new TestLockService({ ...defaults, store: wire, process: wire.process, clock: this.shared.clock, instance: this.name }, this.shared);
  }
}

/** A LockService whose shutdown takes no real time: the signals of work that still runs abort at once, as after shutdownGraceMs. */
class TestLockService extends LockService {
  constructor(
    options: LockServiceOptions,
    private readonly shared: TestStore,
  ) {
    super(options);
    this.events.subscribe(({ type, key }) => {
      if (type === 'waiting') shared.callWaits(key);
    });
  }

  override holdsEnded(): Promise<void> {
    return this.shared.passUntil(super.holdsEnded());
  }

  override close(): Promise<void> {
    return this.shared.passUntil(super.close());
  }
}
