import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, type INestApplication, Inject, Injectable, Logger, Module, type ModuleMetadata, UseInterceptors } from '@nestjs/common';
import { ConfigModule, ConfigService, registerAs } from '@nestjs/config';
import { REQUEST } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { lastValueFrom, type Observable, of } from 'rxjs';
import request from 'supertest';
import { LockBoardModule } from '../../lib/board/index.js';
import { InjectLocks, LockClosedError, Locked, LockInterceptor, LockModule, type LockModuleOptions, LockService, LockUsageError } from '../../lib/index.js';
import { INSTANCE_NAME, interceptorToken, locksToken } from '../../lib/nest/lock-names.js';
import { LockTelemetryModule } from '../../lib/telemetry/index.js';
import { Gate, startAlone, startApp, until } from './application.js';

@Injectable()
class Shop {
  constructor(readonly locks: LockService) {}

  @Locked('shop')
  async open(): Promise<string | undefined> {
    return this.locks.currentLease()?.key;
  }
}

const boot = async (options: LockModuleOptions) => startAlone({ imports: [LockModule.forRoot(options)] });
const environment = process.env['NODE_ENV'];

afterEach(() => {
  process.env['NODE_ENV'] = environment;
  jest.restoreAllMocks();
});

describe('options', () => {
  it.each<[string, LockModuleOptions, string]>([
    ['redis is undefined', { redis: undefined }, 'redis was given, but it is undefined or empty'],
    ['they are a promise', Promise.resolve({ redis: 'redis://a' }) as never, 'are a promise'],
    ['a Redlock is given one server twice', { redis: ['redis://a', 'redis://b', 'redis://a'] }, 'redis[2] is the same as redis[0]'],
    ['redis and embedded are both given', { redis: 'redis://a', embedded: true }, 'contradict each other'],
    ['nothing says where the locks live', { leaseMs: 5_000 }, 'no option says where the locks live'],
    ['the route is no function', { embedded: true, route: 'a' as never }, 'expected route to be a function'],
    ['a module that has only a route is given a default', { route: () => 'a', leaseMs: 5_000 }, 'leaseMs would be ignored, because this module has only a route'],
    ['a module that has only a route is told what becomes of lost work', { route: () => 'a', onLost: 'ignore' }, 'onLost would be ignored'],
    ['a module that has only a route is given a prefix', { route: () => 'a', prefix: 'b' }, 'prefix would be ignored'],
    ['the lease is longer than the longest', { embedded: true, leaseMs: 90_000 }, 'expected leaseMs'],
    ['replicas are asked for where there are none', { embedded: true, minReplicas: 1 }, 'minReplicas'],
  ])('are refused at boot when %s', async (_name, options, problem) => {
    await expect(boot(options)).rejects.toThrow(expect.objectContaining({ name: 'LockUsageError', message: expect.stringContaining(problem) }));
  });

  it('that are missing altogether mean locks in this process, said in one log line', async () => {
    const log = jest.spyOn(Logger.prototype, 'log').mockImplementation(() => undefined);
    const app = await startAlone({ imports: [LockModule.forRoot()], providers: [Shop] });
    expect(await app.get(Shop).open()).toBe('shop');
    expect(log.mock.calls.flat().filter((line) => String(line).includes('this process only'))).toHaveLength(1);
  });

  it('that are missing altogether are refused in production; embedded: true is not', async () => {
    process.env['NODE_ENV'] = 'production';
    await expect(startAlone({ imports: [LockModule.forRoot()] })).rejects.toThrow('NODE_ENV is production');
    const app = await startAlone({ imports: [LockModule.forRoot({ redis: undefined, embedded: true })], providers: [Shop] });
    expect(await app.get(Shop).open()).toBe('shop');
  });
});

describe('a lock module', () => {
  it.each([
    [{ name: '' }, `name to be a text that is not empty, got ''`],
    [{ name: 7 }, 'name to be a text that is not empty, got 7'],
    [{ name: null }, 'name to have a value or to be left out, got null'],
    [{ isGlobal: 'false' }, `isGlobal to be true or false, got 'false'`],
    [{ isGlobal: null }, 'isGlobal to have a value or to be left out, got null'],
  ])('refuses %j', (extras, words) => {
    expect(() => LockModule.forRoot({ embedded: true, ...(extras as object) })).toThrow(new LockUsageError(`LockModule: expected ${words}.`));
  });
});

describe('forRootAsync', () => {
  it('takes its options from ConfigService', async () => {
    const app = await startAlone({
      imports: [
        ConfigModule.forRoot({ isGlobal: true, ignoreEnvFile: true, load: [() => ({ EMBEDDED: true })] }),
        LockModule.forRootAsync({ inject: [ConfigService], useFactory: (config: ConfigService) => ({ embedded: config.getOrThrow<boolean>('EMBEDDED') }) }),
      ],
      providers: [Shop],
    });
    expect(await app.get(Shop).open()).toBe('shop');
  });

  it('takes its options from a registered configuration', async () => {
    const lockConfig = registerAs('lock', () => ({ embedded: true, leaseMs: 5_000 }));
    const app = await startAlone({
      imports: [ConfigModule.forRoot({ ignoreEnvFile: true, load: [lockConfig] }), LockModule.forRootAsync(lockConfig.asProvider())],
      providers: [Shop],
    });
    await using lease = await app.get(LockService).acquire('a');
    expect(lease.remainingMs).toBeLessThanOrEqual(5_000);
  });

  it('takes its options from a class', async () => {
    class Options {
      create(): LockModuleOptions {
        return { embedded: true };
      }
    }
    const app = await startAlone({ imports: [LockModule.forRootAsync({ useClass: Options })], providers: [Shop] });
    expect(await app.get(Shop).open()).toBe('shop');
  });

  it('is global unless it says otherwise', async () => {
    @Module({ providers: [Shop] })
    class Feature {}
    const useFactory = () => ({ embedded: true });
    const app = await startAlone({ imports: [LockModule.forRootAsync({ useFactory }), Feature] });
    expect(await app.get(Shop).open()).toBe('shop');
    await expect(startAlone({ imports: [LockModule.forRootAsync({ isGlobal: false, useFactory }), Feature] })).rejects.toThrow(/LockService at index \[0\] is available in the Feature module/);
  });

  it('takes options that are getters of a class', async () => {
    class Options implements LockModuleOptions {
      get embedded(): boolean {
        return true;
      }

      get leaseMs(): number {
        return 5_000;
      }
    }
    const app = await startAlone({ imports: [LockModule.forRoot(new Options()), LockModule.forRootAsync({ name: 'other', useFactory: () => new Options() })] });
    for (const token of [LockService, locksToken('other')]) {
      await using lease = await app.get<LockService>(token).acquire('a');
      expect(lease.remainingMs).toBeLessThanOrEqual(5_000);
    }
  });

  it('refuses a configuration that lost its Redis', async () => {
    const useFactory = () => ({ redis: process.env['NO_SUCH_REDIS'] });
    await expect(startAlone({ imports: [LockModule.forRootAsync({ useFactory })] })).rejects.toThrow('an environment variable is missing');
  });

  it('says where a name belongs', async () => {
    const useFactory = () => ({ embedded: true, name: 'billing' }) as LockModuleOptions;
    await expect(startAlone({ imports: [LockModule.forRootAsync({ useFactory })] })).rejects.toThrow(`unknown option 'name'`);
  });

  it('says so when its factory gives nothing', async () => {
    const useFactory = () => undefined as unknown as LockModuleOptions;
    await expect(startAlone({ imports: [LockModule.forRootAsync({ useFactory })] })).rejects.toThrow('LockModule options: expected options to be an object such as { redis: process.env.REDIS_URL }, got undefined');
  });

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'expected options to be an object such as { useFactory: () => ({ redis: process.env.REDIS_URL }) }, got undefined'],
    ['an empty object', {}, 'expected one of useFactory, useClass and useExisting, got none'],
    ['a misspelt name', { useFactry: () => ({ embedded: true }) }, "unknown option 'useFactry'"],
    ['the options themselves', { redis: 'redis://a' }, "unknown option 'redis'; expected imports, inject, provideInjectionTokensFrom, useFactory"],
    ['an option beside the factory', { useFactory: () => ({ embedded: true }), leaseMs: 5_000 }, "unknown option 'leaseMs'"],
    ['two ways at once', { useFactory: () => ({}), useClass: Shop }, 'expected one of useFactory, useClass and useExisting, got useFactory and useClass'],
    ['a factory that is none', { useFactory: { embedded: true } }, 'expected useFactory to be a function, got an object'],
    ['a class that is none', { useClass: 'Options' }, "expected useClass to be a class, got 'Options'"],
  ])('refuses %s, and says what it takes', (_name, given, problem) => {
    const refused = (): unknown => LockModule.forRootAsync(given as never);
    expect(refused).toThrow(LockUsageError);
    expect(refused).toThrow(`LockModule.forRootAsync: ${problem}`);
  });

  it.each(['a class', 'a text'])('takes its options from a provider that another module exports under %s', async (token) => {
    @Injectable()
    class Options {
      readonly create = async (): Promise<LockModuleOptions> => ({ embedded: true, leaseMs: 5_000 });
    }
    const provide = token === 'a class' ? Options : ('options' as unknown as typeof Options);
    @Module({ providers: [{ provide, useClass: Options }], exports: [provide] })
    class Settings {}
    const app = await startAlone({ imports: [LockModule.forRootAsync({ imports: [Settings], useExisting: provide, name: 'other' })] });
    await using lease = await app.get<LockService>(locksToken('other')).acquire('a');
    expect(lease.remainingMs).toBeLessThanOrEqual(5_000);
  });

  it('is refused at boot when it would make locked singletons request-scoped', async () => {
    const perRequest = LockModule.forRootAsync({ inject: [REQUEST], useFactory: () => ({ embedded: true }) });
    await expect(startApp({ providers: [Shop] }, perRequest)).rejects.toThrow(/LockModule 'default' is request-scoped/);
  });
});

describe('a missing LockModule', () => {
  it('fails the boot, and the error names it', async () => {
    @Injectable()
    class Alone {
      @Locked('a')
      async run(): Promise<void> {}
    }
    const refused = Test.createTestingModule({ providers: [Alone] }).compile();
    await expect(refused).rejects.toThrow(/Alone.*LockInterceptor of nestjs-holdfast; @Locked needs LockModule\.forRoot/s);
  });
});

describe('a module that is there twice', () => {
  const twice = (name?: string, isGlobal = true) => {
    const once = () => LockModule.forRoot({ embedded: true, isGlobal, ...(name === undefined ? {} : { name }) });

    @Module({ imports: [once()] })
    class Feature {}
    return startAlone({ imports: [Feature, once()] });
  };

  it.each([['default', undefined, true], ['billing', 'billing', true], ['default', undefined, false]])('is refused at boot: %s, name %s, global %s', async (says, name, isGlobal) => {
    await expect(twice(name, isGlobal)).rejects.toThrow(`LockModule '${says}' is imported 2 times, and none of them`);
  });

  it('is refused at boot when the other is of another copy of this package, whose LockService is another class', async () => {
    class LockModuleOfTheOtherCopy {}
    const providers = [INSTANCE_NAME, interceptorToken('default')].map((provide) => ({ provide, useValue: 'default' }));
    const other = { module: LockModuleOfTheOtherCopy, global: true, providers, exports: [interceptorToken('default')] };
    const both = startAlone({ imports: [other, LockModule.forRoot({ embedded: true })] });
    await expect(both).rejects.toThrow(/LockModule 'default' is imported 2 times, .* of one copy of nestjs-holdfast \(npm ls nestjs-holdfast\)/);
  });

  it('names at boot a class that injects the LockService of another copy, and leaves every other class alone', async () => {
    jest.resetModules();
    const { LockService: OfTheOtherCopy } = (await import('../../lib/index.js')) as unknown as { LockService: typeof LockService };
    expect(OfTheOtherCopy).not.toBe(LockService);

    @Injectable()
    class Billing {
      constructor(@Inject(OfTheOtherCopy) readonly locks: unknown) {}
    }
    const imports = [LockModule.forRoot({ embedded: true })];
    await expect(startAlone({ imports, providers: [Shop, Billing] })).rejects.toThrow(
      new LockUsageError('Billing injects the LockService of another copy of nestjs-holdfast than the one whose LockModule is imported. Let both import one copy (npm ls nestjs-holdfast).'),
    );
    expect(await (await startAlone({ imports, providers: [Shop] })).get(Shop).open()).toBe('shop');
  });

  it('is one when both mean the same', async () => {
    const locks = LockModule.forRoot({ embedded: true });

    @Module({ imports: [locks], providers: [Shop] })
    class Feature {}
    const app = await startAlone({ imports: [Feature, locks] });
    expect(await app.get(Shop).open()).toBe('shop');
  });
});

describe('named modules', () => {
  @Injectable()
  class Billing {
    constructor(@InjectLocks('billing') readonly billing: LockService, @InjectLocks() readonly locks: LockService) {}

    @Locked('invoice', { instance: 'billing' })
    async bill(): Promise<(string | undefined)[]> {
      return [this.billing, this.locks].map((locks) => locks.currentLease()?.key);
    }

    @Locked('invoice')
    async count(): Promise<(string | undefined)[]> {
      return [this.billing, this.locks].map((locks) => locks.currentLease()?.key);
    }
  }

  it('keep their locks apart in one class', async () => {
    const app = await startApp({ imports: [LockModule.forRoot({ embedded: true, name: 'billing' })], providers: [Billing] });
    const billing = app.get(Billing);
    expect(await billing.bill()).toEqual(['invoice', undefined]);
    expect(await billing.count()).toEqual([undefined, 'invoice']);
    expect(billing.locks).toBe(app.get(LockService));
  });
});

describe('shutdown', () => {
  it('lets the hooks of other modules lock until they are done', async () => {
    const done: string[] = [];

    @Module({})
    class Leaving {
      constructor(@Inject(LockService) private readonly locks: LockService) {}

      async onModuleDestroy(): Promise<void> {
        await this.locks.withLock('leaving', () => done.push('left'));
      }
    }
    const app = await startApp({ imports: [Leaving] });
    await app.close();
    expect(done).toEqual(['left']);
  });

  it.each([
    ['before', [{}, { name: 'billing' }]],
    ['behind', [{ name: 'billing' }, {}]],
  ])('serves calls inside a hold of a lock module that is imported %s theirs, until it ends', async (_, names) => {
    @Injectable()
    class Orders {
      readonly begun = new Gate();
      readonly goesOn = new Gate();

      constructor(readonly locks: LockService, @InjectLocks('billing') readonly billing: LockService) {}

      @Locked('order')
      async pay(): Promise<string> {
        const waits = this.book('ledger');
        this.begun.release();
        await this.goesOn.opened;
        return `${await waits}, ${await this.book('account')}`;
      }

      @Locked('<0>', { instance: 'billing' })
      async book(name: string): Promise<string> {
        return `${name} is booked`;
      }
    }
    const app = await startAlone({ imports: names.map((name) => LockModule.forRoot({ embedded: true, ...name })), providers: [Orders] });
    const orders = app.get(Orders);
    const ledger = await orders.billing.acquire('ledger');
    const paid = orders.pay();
    await orders.begun.opened;
    const closed = app.close();
    await until(() => orders.book('other').then(() => false, (error: unknown) => error instanceof LockClosedError));
    await ledger.release();
    orders.goesOn.release();
    expect(await paid).toBe('ledger is booked, account is booked');
    await closed;
  });

  it('leaves a double alone that a test put in the place of LockService', async () => {
    const double = { withLock: (_key: string, _options: object, fn: () => unknown) => fn() };
    const built = await Test.createTestingModule({ imports: [LockModule.forRoot({ embedded: true })], providers: [Shop] })
      .overrideProvider(LockService)
      .useValue(double)
      .compile();
    const error = jest.spyOn(Logger, 'error').mockImplementation(() => undefined);
    await built.init();
    await expect(built.get(Shop).open()).rejects.toThrow(TypeError);
    await built.close();
    expect(error.mock.calls).toEqual([]);
  });
});

// A test that puts an object of its own in the place of LockService: work runs, and what needs a real one says so.

@Injectable()
class Prices {
  @Locked('prices', { returns: 'observable' })
  all(): Observable<number> {
    return of(1, 2);
  }
}

@Controller('cart')
class Cart {
  @Get()
  @UseInterceptors(LockInterceptor.of('cart'))
  show(): string {
    return 'shown';
  }
}

/** An application whose LockService runs the work of every call, and knows no lease. */
async function withDouble(metadata: ModuleMetadata): Promise<INestApplication> {
  const double = { withLock: async (_key: string, _options: object, fn: () => unknown) => fn() };
  const built = Test.createTestingModule({ ...metadata, imports: [LockModule.forRoot({ embedded: true }), ...(metadata.imports ?? [])] });
  const app = (await built.overrideProvider(LockService).useValue(double).compile()).createNestApplication({ logger: false });
  return app.init();
}

describe('A double of LockService', () => {
  it('that gives its work no lease serves locked Observables and routes', async () => {
    const app = await withDouble({ providers: [Prices], controllers: [Cart] });
    expect(await lastValueFrom(app.get(Prices).all())).toBe(2);
    await request(app.getHttpServer()).get('/cart').expect(200, 'shown');
    await app.close();
  });

  it.each([
    ['LockBoardModule', LockBoardModule.forRoot({ guards: [], path: 'locks' })],
    ['LockTelemetryModule', LockTelemetryModule.forRoot()],
  ])('is refused in words by %s, which needs the events', async (name, module) => {
    await expect(withDouble({ imports: [module] })).rejects.toThrow(`${name} needs a LockService, but an object without 'events' stands in its place. Use TestLocks`);
  });
});
