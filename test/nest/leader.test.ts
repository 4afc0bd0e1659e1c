/** @Leader in real Nest applications. */
import 'reflect-metadata';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, Inject, Injectable, Scope, SetMetadata, applyDecorators, type Provider } from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { OnEvent } from '@nestjs/event-emitter';
import { Test } from '@nestjs/testing';
import { InjectLocks, Leader, Locked, LockKeyError, LockModule, LockService, LockUsageError, type Lease } from '../../lib/index.js';
import { created, startAlone, startApp, until } from './application.js';

/** What leads and for how long, for one test. */
const terms: { place: string; term: Lease; self: unknown }[] = [];
const places = (): string[] => terms.map(({ place }) => place).sort();

afterEach(() => {
  terms.length = 0;
  jest.restoreAllMocks();
});

async function serve(place: string, term: Lease, self: unknown): Promise<void> {
  terms.push({ place, term, self });
  await new Promise<void>((resolve) => term.signal.addEventListener('abort', () => resolve()));
}

@Injectable()
class IndexService {
  constructor(readonly locks: LockService) {}

  @Leader('indexer')
  async index(term: Lease): Promise<void> {
    await serve('IndexService', term, this);
  }
}

describe('A method with @Leader', () => {
  it('runs on its provider, inside its term, from application start to shutdown', async () => {
    const app = await startApp({ providers: [IndexService] });
    await until(() => terms.length === 1, 'the term');
    const [{ term, self }] = terms as [(typeof terms)[0]];
    expect(self).toBe(app.get(IndexService));
    const holder = await app.get(LockService).leader('indexer');
    expect(holder).toMatchObject({ fence: term.fence, label: 'IndexService.index' });
    expect(app.get(LockService).leaderships).toMatchObject([{ role: 'indexer', isLeader: true }]);
    await app.close();
    expect(term.signal.reason).toMatchObject({ code: 'LOCK_CLOSED', message: expect.stringContaining('the application shuts down') });
  });

  it('does not run, and disturbs no boot, where a test puts a double in the place of LockService', async () => {
    const built = Test.createTestingModule({ imports: [LockModule.forRoot({ embedded: true })], providers: [IndexService] });
    const app = await built.overrideProvider(LockService).useValue({}).compile();
    await app.init();
    await app.close();
    expect(terms).toEqual([]);
  });

  it('keeps its other decorators, and works whatever their order is', async () => {
    const applied: string[] = [];
    const wrap = (name: string): MethodDecorator => (_target, _property, descriptor: PropertyDescriptor) => {
      const method: CallableFunction = descriptor.value;
      descriptor.value = function (this: unknown, ...args: unknown[]) {
        applied.push(name);
        return Reflect.apply(method, this, args);
      };
    };
    @Injectable()
    class Above {
      @Leader('above')
      @wrap('above')
      @OnEvent('rebuild')
      @SetMetadata('tag', 1)
      async run(term: Lease): Promise<void> {
        await serve('Above', term, this);
      }
    }
    @Injectable()
    class Below {
      @SetMetadata('tag', 1)
      @wrap('below')
      @Locked('work')
      @Leader('below')
      async run(term: Lease): Promise<void> {
        await serve('Below', term, this);
      }
    }
    @Injectable()
    class Applied {
      @applyDecorators(Leader('applied'), SetMetadata('tag', 1))
      async run(term: Lease): Promise<void> {
        await serve('Applied', term, this);
      }
    }
    await startApp({ providers: [Above, Below, Applied] });
    await until(() => terms.length === 3, 'the terms');
    expect(places()).toEqual(['Above', 'Applied', 'Below']);
    expect(applied.sort()).toEqual(['above', 'below']);
    for (const { prototype } of [Below, Applied]) expect(Reflect.getMetadata('tag', prototype.run)).toBe(1);
  });

  it('works on a controller, on what a factory or useValue gives, and once for an object with several tokens', async () => {
    @Controller('index')
    class IndexController {
      @Get()
      get(): string {
        return 'index';
      }

      @Leader('controller')
      async run(term: Lease): Promise<void> {
        await serve('IndexController', term, this);
      }
    }
    const others: Provider[] = [
      { provide: 'made', inject: [LockService], useFactory: (locks: LockService) => new IndexService(locks) },
      { provide: 'alias', useExisting: 'made' },
    ];
    const app = await startApp({ controllers: [IndexController], providers: others });
    await until(() => terms.length === 2, 'the terms');
    expect(places()).toEqual(['IndexController', 'IndexService']);
    expect(app.get(LockService).leaderships).toHaveLength(2);
  });

  it('is inherited; an override leads in its place, and a decorator of its own says anew what it leads', async () => {
    abstract class Base {
      @Leader('base')
      async run(term: Lease): Promise<void> {
        await serve(`${this.constructor.name} as base`, term, this);
      }
    }
    @Injectable()
    class Plain extends Base {}
    @Injectable()
    class Renamed extends Base {
      @Leader('renamed')
      override async run(term: Lease): Promise<void> {
        await serve('Renamed as renamed', term, this);
      }
    }
    const app = await startApp({ providers: [Plain, Renamed] });
    await until(() => terms.length === 2, 'the terms');
    expect(places()).toEqual(['Plain as base', 'Renamed as renamed']);
    expect(app.get(LockService).leaderships.map(({ role }) => role).sort()).toEqual(['base', 'renamed']);
  });

  it('stands with the lock module that it names', async () => {
    @Injectable()
    class Billing {
      constructor(@InjectLocks('billing') readonly locks: LockService) {}

      @Leader('biller', { instance: 'billing', restMs: 10 })
      async bill(term: Lease): Promise<void> {
        await serve('Billing', term, this);
      }

      /** So the object has the locks of the default module as well. */
      @Locked('counted')
      async count(): Promise<void> {}
    }
    const named = LockModule.forRoot({ embedded: true, name: 'billing' });
    const app = await startApp({ imports: [named], providers: [Billing, IndexService] });
    await until(() => terms.length === 2, 'the terms');
    expect(await app.get(Billing).locks.leader('biller')).toMatchObject({ label: 'Billing.bill' });
    expect(await app.get(LockService).leader('biller')).toBeNull();
  });

  it('stands with the lock module that the route gives for leader:<role>', async () => {
    const kept = LockModule.forRoot({ embedded: true, name: 'kept' });
    const routed = LockModule.forRoot({ route: (key) => (key === 'leader:indexer' ? 'kept' : 'nowhere') });
    const app = await startAlone({ imports: [kept, routed], providers: [IndexService] });
    await until(() => terms.length === 1, 'the term');
    expect(app.get(LockService).leaderships).toMatchObject([{ role: 'indexer', isLeader: true }]);
    expect(await app.get(LockService).leader('indexer')).toMatchObject({ label: 'IndexService.index' });
  });

  it.each([true, false])('says of itself what its label says, with describeHolders: %s', async (describeHolders) => {
    @Injectable()
    class Labelled {
      @Leader('labelled', { label: 'the indexer of the shop' })
      async run(term: Lease): Promise<void> {
        await serve('Labelled', term, this);
      }
    }
    const app = await startApp({ providers: [Labelled] }, LockModule.forRoot({ embedded: true, describeHolders }));
    await until(() => terms.length === 1, 'the term');
    expect(await app.get(LockService).leader('labelled')).toMatchObject({ label: 'the indexer of the shop' });
  });

  it('leads in each of two applications of one process that have locks of their own', async () => {
    const apps = [await startApp({ providers: [IndexService] }), await startApp({ providers: [IndexService] })];
    await until(() => terms.length === 2, 'the terms');
    expect(terms.map(({ self }) => self)).toEqual(apps.map((app) => app.get(IndexService)));
    await apps[0]!.close();
    expect(terms.map(({ term }) => term.signal.aborted)).toEqual([true, false]);
  });

  it('whose class is request-scoped, transient or injects what is, refuses the boot', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class OfRequest {
      @Leader('request')
      async run(): Promise<void> {}
    }
    @Injectable({ scope: Scope.TRANSIENT })
    class Transient {
      @Leader('transient')
      async run(): Promise<void> {}
    }
    @Injectable()
    class Injects {
      constructor(@Inject(REQUEST) readonly request: unknown) {}

      @Leader('injects')
      async run(): Promise<void> {}
    }
    for (const provider of [OfRequest, Transient, Injects]) {
      const app = await created({ imports: [LockModule.forRoot({ embedded: true })], providers: [provider] });
      const name = provider.name;
      await expect(app.init()).rejects.toThrow(new RegExp(`^${name}\\.run has @Leader\\('\\w+'\\), but ${name} is request-scoped or transient`));
    }
  });

  it('whose lock module is missing, or cannot do what it asks for, refuses the boot', async () => {
    await expect(Test.createTestingModule({ providers: [{ provide: LockService, useValue: {} }, IndexService] }).compile()).rejects.toThrow(/needs LockModule\.forRoot\(\.\.\.\) in the imports of a module, and so does @Leader/);
    @Injectable()
    class Replicated {
      @Leader('replicated', { minReplicas: 1 })
      async run(): Promise<void> {}
    }
    const app = await created({ imports: [LockModule.forRoot({ embedded: true })], providers: [Replicated] });
    await expect(app.init()).rejects.toThrow('Replicated.run: minReplicas is 1, but its store has no replicas to count.');
    @Injectable()
    class Restless {
      @Leader('restless', { restMs: -5 })
      async run(): Promise<void> {}
    }
    const restless = await created({ imports: [LockModule.forRoot({ embedded: true })], providers: [Restless] });
    await expect(restless.init()).rejects.toThrow("Restless.run: Lock 'leader:restless': expected restMs to be a whole number from 0 to");
  });

  it('that is none, or whose role or options are none, is refused when the class is defined', () => {
    const decorate = (decorator: unknown, target: object, property: string) =>
      (decorator as MethodDecorator)(target, property, Object.getOwnPropertyDescriptor(target, property)!);
    class Plain {
      static all(): void {}
      get size(): number {
        return 0;
      }
      async run(): Promise<void> {}
    }
    expect(() => decorate(Leader('r'), Plain, 'all')).toThrow(/^Plain\.all is static.*Use LockService\.lead, or make it a method/);
    expect(() => decorate(Leader('r'), Plain.prototype, 'size')).toThrow(/^Plain\.size is no method, and @Leader decorates methods only/);
    expect(() => decorate(Leader(''), Plain.prototype, 'run')).toThrow(LockKeyError);
    expect(() => decorate(Leader('r', { rest: 1 } as never), Plain.prototype, 'run')).toThrow(/^Plain\.run: unknown option 'rest'/);
    for (const instance of ['', 7, null]) {
      expect(() => decorate(Leader('r', { instance: instance as string }), Plain.prototype, 'run')).toThrow(LockUsageError);
    }
    const Unnamed = (() => class {
      async run(): Promise<void> {}
    })();
    expect(() => decorate(Leader('r', { rest: 1 } as never), Unnamed.prototype, 'run')).toThrow(/^an anonymous class\.run: unknown option/);
  });
});
