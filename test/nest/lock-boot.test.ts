/** What a lock module does with the objects and the classes of an application that boots. */
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, Global, Injectable, Logger, Module, type Provider, Scope, UseInterceptors } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { lastValueFrom, type Observable, of } from 'rxjs';
import { InjectLocks, Leader, type Lease, Locked, LockInterceptor, LockModule, LockService, LockUsageError, ReadLock } from '../../lib/index.js';
import { locksToken } from '../../lib/nest/lock-names.js';
import { created, startAlone, startApp, until } from './application.js';

afterEach(() => void jest.restoreAllMocks());

function warnings(): unknown[] {
  const lines: unknown[] = [];
  jest.spyOn(Logger.prototype, 'warn').mockImplementation((line: unknown) => void lines.push(line));
  return lines;
}

/** Which keys this application grants from now on. */
function grantedBy(locks: LockService): string[] {
  const keys: string[] = [];
  locks.events.subscribe(({ type, key }) => type === 'granted' && keys.push(key));
  return keys;
}

class Ledger {
  @Locked('ledger')
  async settle(): Promise<void> {}
}

const startWith = (value: Ledger) => startApp({ providers: [{ provide: Ledger, useValue: value }] });

describe('An object that the application was given', () => {
  it('keeps its locks while their application runs, though another one is given it as well', async () => {
    const value = new Ledger();
    const [one, two] = [await startWith(value), await startWith(value)];
    const [ofOne, ofTwo] = [one, two].map((app) => grantedBy(app.get(LockService)));
    await value.settle();
    expect([ofOne, ofTwo]).toEqual([['ledger'], []]);
  });

  it.each([{ first: 1, then: 0, left: 2 }, { first: 2, then: 0, left: 1 }, { first: 0, then: 1, left: 2 }])('has the locks of the application that is left (%j)', async ({ first, then, left }) => {
    const value = new Ledger();
    const apps = [await startWith(value), await startWith(value), await startWith(value)];
    const granted = grantedBy(apps[left]!.get(LockService));
    await apps[first]!.close();
    await apps[then]!.close();
    await value.settle();
    expect(granted).toEqual(['ledger']);
  });
});

describe('An object that a factory made', () => {
  it('has the locks of the next application when the first one is closed', async () => {
    const value = new Ledger();
    const provider = { provide: Ledger, useFactory: () => value };
    await (await startApp({ providers: [provider] })).close();
    const granted = grantedBy((await startApp({ providers: [provider] })).get(LockService));
    await value.settle();
    expect(granted).toEqual(['ledger']);
  });
});

describe('A lock decorator', () => {
  it('is held against the limits of the lock module that it names, and no other', async () => {
    @Injectable()
    class Exports {
      constructor(@InjectLocks('slow') readonly slow: LockService) {}

      @Locked('export:{0}', { instance: 'slow', leaseMs: 90_000 })
      async run(_id: string): Promise<string | undefined> {
        return this.slow.currentLease()?.key;
      }
    }
    const lines = warnings();
    const app = await startApp({ imports: [LockModule.forRoot({ embedded: true, name: 'slow', maxLeaseMs: 120_000 })], providers: [Exports] });
    expect(await app.get(Exports).run('7')).toBe('export:{0}');
    expect(lines).toHaveLength(1);
  });

  it('that the module cannot obey closes all lock modules: nobody gets an application that could do it', async () => {
    class Slow {
      @Locked('slow', { leaseMs: 120_000 })
      async run(): Promise<void> {}
    }
    const app = await created({ imports: [LockModule.forRoot({ embedded: true }), LockModule.forRoot({ embedded: true, name: 'other' })], providers: [Slow] });
    const ends: string[] = [];
    const own = app.get(LockService);
    const { close } = own;
    jest.spyOn(own, 'close').mockImplementation(async () => {
      await new Promise(setImmediate);
      await close.call(own);
      ends.push('closed');
      throw new Error('the close failed as well');
    });
    await expect(app.init().finally(() => ends.push('told'))).rejects.toThrow(/^Slow\.run: /);
    expect(ends).toEqual(['closed', 'told']);
    for (const locks of [app.get(LockService), app.get<LockService>(locksToken('other'))]) await expect(locks.acquire('k')).rejects.toMatchObject({ code: 'LOCK_CLOSED' });
  });

  it('that the module cannot obey refuses the boot of a class that is made for each request, too', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Slow {
      @Locked('slow', { leaseMs: 120_000 })
      async run(): Promise<void> {}
    }
    @Injectable({ scope: Scope.TRANSIENT })
    class Slower extends Slow {}
    for (const provider of [Slow, Slower]) await expect(startApp({ providers: [provider] })).rejects.toThrow(/^Slow\.run: Lock options: expected leaseMs/);
  });

  it('may stand twice above one method, and @Leader as well: all of them count', async () => {
    const led: string[] = [];
    const serve = async ({ key, signal }: Lease): Promise<void> => {
      led.push(key);
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    };
    @Injectable()
    class Roles {
      @Leader('one')
      @Leader('two')
      async lead(term: Lease): Promise<void> {
        await serve(term);
      }

      @Locked('outer:{0}')
      @Locked('inner:{0}')
      async twice(_id: string): Promise<void> {}
    }
    const lines = warnings();
    await startApp({ providers: [Roles] });
    await until(() => led.length === 2, 'both terms');
    expect(led.sort()).toEqual(['leader:one', 'leader:two']);
    expect(lines).toEqual([expect.stringContaining(`'inner:{0}'`), expect.stringContaining(`'outer:{0}'`)]);
  });
});

describe('A method without a lock', () => {
  class Base {
    @Locked('base')
    async run(): Promise<void> {}
  }
  class Careful extends Base {
    @Locked('careful')
    override async run(): Promise<void> {}
  }

  it('is named with the locked method that it overrides directly, and with no other', async () => {
    @Injectable()
    class Careless extends Careful {
      override async run(): Promise<void> {}
    }
    const lines = warnings();
    await startApp({ providers: [Careless] });
    expect(lines).toEqual([expect.stringMatching(/^Careless\.run overrides the locked method Careful\.run, but has no lock of its own: .* except inside super\.run\(\)/)]);
  });

  it('that overrides a method of another lock module is named by that module alone', async () => {
    class Billed {
      @Locked('bill', { instance: 'billing' })
      async bill(): Promise<void> {}
    }
    @Injectable()
    class Careless extends Billed {
      override async bill(): Promise<void> {}
    }
    const lines = warnings();
    await startApp({ imports: [LockModule.forRoot({ embedded: true, name: 'billing' })], providers: [Careless] });
    expect(lines).toHaveLength(1);
  });

  it('is an error with strictOverrides', async () => {
    @Injectable()
    class Careless extends Base {
      override async run(): Promise<void> {}
    }
    const strict = LockModule.forRoot({ embedded: true, strictOverrides: true });
    await expect(startApp({ providers: [Careless] }, strict)).rejects.toThrow('Careless.run overrides the locked method Base.run');
  });

  it('is fine when it is locked as well, or only inherited', async () => {
    class Heir extends Base {}
    const strict = LockModule.forRoot({ embedded: true, strictOverrides: true });
    const app = await startApp({ providers: [Careful, Heir] }, strict);
    expect(app.get(Careful)).toBeInstanceOf(Careful);
  });
});

describe('A test module without locks, whose mocks are empty objects', () => {
  it('is told at the call, and when a locked route is made, to import locks', async () => {
    const built = await Test.createTestingModule({ providers: [Ledger] }).useMocker(() => ({})).compile();
    await expect(built.get(Ledger).settle()).rejects.toThrow(/^Ledger\.settle is locked, but what was injected as its LockInterceptor is none: probably a mock/);
    const Route = LockInterceptor.of('cart') as unknown as new (mock: object) => unknown;
    expect(() => new Route({})).toThrow(/^LockInterceptor\.of\('cart'\) locks a route, but what was injected as its LockInterceptor is none/);
  });

  it('is told so as well when the mocks answer every property with a function', async () => {
    const deepMock = (): object => new Proxy({}, { get: (_mock, name) => (name === 'then' ? undefined : () => 'mocked') });
    const built = await Test.createTestingModule({ providers: [Ledger] }).useMocker(deepMock).compile();
    await expect(built.get(Ledger).settle()).rejects.toThrow(/^Ledger\.settle is locked, but what was injected as its LockInterceptor is none/);
    const Route = LockInterceptor.of('cart') as unknown as new (mock: object) => unknown;
    expect(() => new Route(deepMock())).toThrow(/ locks a route, but what was injected as its LockInterceptor is none/);
  });

  it('is told so of a stream by the stream', async () => {
    class Feed {
      @Locked('feed', { returns: 'observable' })
      stream(): Observable<number> {
        return of(1);
      }
    }
    const built = await Test.createTestingModule({ providers: [Feed] }).useMocker(() => ({})).compile();
    await expect(lastValueFrom(built.get(Feed).stream())).rejects.toThrow(/^Feed\.stream is locked, but what was injected/);
  });
});

describe('A global module of the application', () => {
  it('that provides LockService anew is no second lock module', async () => {
    const own: Provider = { provide: LockService, useValue: { own: true } };

    @Global()
    @Module({ providers: [own], exports: [own] })
    class OwnLocks {}
    const app = await startAlone({ imports: [LockModule.forRoot({ embedded: true }), OwnLocks], providers: [Ledger] });
    await app.get(Ledger).settle();
    expect(app.get(Ledger)).toBeInstanceOf(Ledger);
  });
});

describe('LockModule without forRoot', () => {
  const said = 'LockModule is imported without forRoot, so it has no options. Call LockModule.forRoot({ redis: … }) once, in the root module';

  @Module({ imports: [LockModule], providers: [Ledger] })
  class Feature {}

  it('in a feature module is refused at boot in words, beside a root module that has it and without one', async () => {
    await expect(startAlone({ imports: [LockModule.forRoot({ embedded: true }), Feature] })).rejects.toThrow(said);
    await expect(startAlone({ imports: [LockModule] })).rejects.toThrow(said);
  });
});

const start = (metadata: object, options = {}) => startAlone({ imports: [LockModule.forRoot({ embedded: true, ...options })], ...metadata });

describe('a key that is the same for every call though it looks otherwise', () => {
  it('is one warning at boot that says how it is meant, and no reason to stop', async () => {
    @Injectable()
    class Orders {
      @Locked('order:{0}')
      async pay(_id: string): Promise<void> {}

      @ReadLock(['order:<0>', 'audit:$0'])
      async look(_id: string): Promise<void> {}

      @Locked(() => 'order:{0}')
      async meant(_id: string): Promise<void> {}

      @Locked('{reports}')
      async report(): Promise<void> {}
    }
    @Injectable()
    class MoreOrders extends Orders {}
    const warned = warnings();
    await start({ providers: [Orders, MoreOrders] }, { strictOverrides: true });
    expect(warned).toEqual([
      `Orders.pay: '{0}' in its key 'order:{0}' is text, the same for every call. A placeholder is <0> for the first argument, <0.id> for a property ` +
        `of it, and of a route a path into the request, such as <params.id>. If the text itself is meant, give a function: () => 'order:{0}'.`,
      expect.stringContaining(`Orders.look: '$0' in its key 'audit:$0' is text, the same for every call.`),
    ]);
  });

  it('is told of a route as well', async () => {
    @Controller()
    class Carts {
      @Get()
      @UseInterceptors(LockInterceptor.of('cart:{user.id}'))
      show(): void {}
    }
    const warned = warnings();
    await start({ controllers: [Carts] });
    expect(warned).toEqual([expect.stringContaining(`LockInterceptor.of('cart:{user.id}'): '{user.id}' in its key 'cart:{user.id}' is text`)]);
  });
});

describe('a route', () => {
  it('whose options cannot work with those of its module fails the boot, as a method does', async () => {
    @Controller()
    class Slow {
      @Get()
      @UseInterceptors(LockInterceptor.of('slow', { leaseMs: 120_000 }))
      show(): void {}
    }
    const refused = start({ controllers: [Slow] });
    await expect(refused).rejects.toBeInstanceOf(LockUsageError);
    await expect(refused).rejects.toThrow(/LockInterceptor\.of\('slow'\).*expected leaseMs/);
  });
});
