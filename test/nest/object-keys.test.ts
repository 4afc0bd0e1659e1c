/** Keys, fallbacks and signals that depend on the object whose method is called: the tenant of a request, a mixin, a subclass. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { Controller, Get, Inject, Injectable, Scope, type Type } from '@nestjs/common';
import { ContextIdFactory, ModuleRef, REQUEST, type ContextId, type HostComponentInfo } from '@nestjs/core';
import { defer, firstValueFrom, of, type Observable } from 'rxjs';
import request from 'supertest';
import { Locked, LockService } from '../../lib/index.js';
import { gate } from '../support/locks.js';
import { startAlone, startApp } from './application.js';
import { LockModule } from '../../lib/nest/lock.module.js';

interface Asked {
  readonly headers: Readonly<Record<string, string>>;
}

@Injectable({ scope: Scope.REQUEST })
class Orders {
  readonly tenant: string;

  constructor(@Inject(REQUEST) asked: Asked, private readonly locks: LockService) {
    this.tenant = asked.headers['x-tenant'] ?? 'nobody';
  }

  @Locked(function (this: Orders, id: string) {
    return `${this.tenant}:order:${id}`;
  })
  async pay(_id: string): Promise<string | undefined> {
    return this.locks.currentLease()?.key;
  }

  @Locked(['audit', function (this: Orders) {
    return this.tenant;
  }])
  async audit(): Promise<readonly string[] | undefined> {
    return this.locks.currentLease()?.keys;
  }
}

const requestOf = (tenant: string): Asked => ({ headers: { 'x-tenant': tenant } });

describe('a key function', () => {
  it('has as this the request-scoped object whose method is called', async () => {
    const app = await startApp({ providers: [Orders] });
    const keys = ['acme', 'umbrella'].map(async (tenant) => {
      const contextId = ContextIdFactory.create();
      app.get(ModuleRef).registerRequestByContextId(requestOf(tenant), contextId);
      const orders = await app.get(ModuleRef).resolve(Orders, contextId, { strict: false });
      return [await orders.pay('7'), await orders.audit()];
    });
    expect(await Promise.all(keys)).toEqual([['acme:order:7', ['acme', 'audit']], ['umbrella:order:7', ['audit', 'umbrella']]]);
  });

  it('has as this the durable object of a tenant, which serves all requests of that tenant', async () => {
    let made = 0;

    @Injectable({ scope: Scope.REQUEST, durable: true })
    class Tenant {
      readonly name: string;

      constructor(@Inject(REQUEST) { tenant }: { tenant: string }) {
        made += 1;
        this.name = tenant;
      }
    }

    @Controller({ path: 'stock', scope: Scope.REQUEST, durable: true })
    class Stock {
      constructor(private readonly tenant: Tenant, private readonly locks: LockService) {}

      @Get()
      @Locked(function (this: Stock) {
        return `${this.tenant.name}:stock`;
      })
      async take(): Promise<string | undefined> {
        return this.locks.currentLease()?.key;
      }
    }
    const trees = new Map<string, ContextId>();
    ContextIdFactory.apply({
      attach(contextId: ContextId, asked: Asked) {
        const tenant = asked.headers['x-tenant'] ?? '';
        const tree = trees.get(tenant) ?? ContextIdFactory.create();
        trees.set(tenant, tree);
        return { resolve: ({ isTreeDurable }: HostComponentInfo) => (isTreeDurable ? tree : contextId), payload: { tenant } };
      },
    });
    const app = await startApp({ controllers: [Stock], providers: [Tenant] });
    const answers = ['acme', 'umbrella', 'acme'].map((tenant) => request(app.getHttpServer()).get('/stock').set('x-tenant', tenant));
    expect((await Promise.all(answers)).map(({ text }) => text)).toEqual(['acme:stock', 'umbrella:stock', 'acme:stock']);
    expect(made).toBe(2);
  });

  it('of a mixin or a base class has as this the object of the subclass', async () => {
    function Locking<Base extends Type<object>>(base: Base) {
      abstract class WithLock extends base {
        abstract readonly table: string;

        @Inject(LockService) readonly locks!: LockService;

        @Locked(function (this: WithLock) {
          return `table:${this.table}`;
        })
        async key(): Promise<string | undefined> {
          return this.locks.currentLease()?.key;
        }
      }
      return WithLock;
    }

    @Injectable()
    class Users extends Locking(Object) {
      readonly table = 'users';
    }
    const app = await startApp({ providers: [Users] });
    expect(await app.get(Users).key()).toBe('table:users');
  });

  it('is called for each subscription with the object, where the method returns an Observable', async () => {
    @Injectable()
    class Prices {
      shop = 'a';

      constructor(private readonly locks: LockService) {}

      @Locked(
        function (this: Prices) {
          return `prices:${this.shop}`;
        },
        { returns: 'observable' },
      )
      read(): Observable<string | undefined> {
        return of(this.locks.currentLease()?.key);
      }
    }
    const app = await startApp({ providers: [Prices] });
    const prices = app.get(Prices);
    const read = prices.read();
    prices.shop = 'b';
    expect(await firstValueFrom(read)).toBe('prices:b');
  });
});

it.each(['promise', 'observable'] as const)('onBusy and signal have the object as this, where the method returns one %s', async (returns) => {
  const { promise: opened, open } = gate();

  @Injectable()
  class Jobs {
    private readonly name = 'jobs';
    private readonly stop = new AbortController();

    @Locked('busy', {
      onBusy(this: Jobs) {
        return `${this.name} are busy`;
      },
    })
    async skipped(): Promise<string> {
      await opened;
      return 'done';
    }

    @Locked('busy', {
      returns: 'observable',
      onBusy(this: Jobs) {
        return of(`${this.name} are busy`);
      },
    })
    skippedStream(): Observable<string> {
      return of('done');
    }

    @Locked('busy', {
      signal(this: Jobs) {
        return this.stop.signal;
      },
    })
    async stopped(): Promise<void> {}

    @Locked('busy', {
      returns: 'observable',
      signal(this: Jobs) {
        return this.stop.signal;
      },
    })
    stoppedStream(): Observable<string> {
      return of('done');
    }

    end(): void {
      this.stop.abort(new Error(`${this.name} end`));
    }
  }
  const app = await startAlone({ imports: [LockModule.forRoot({ embedded: true })], providers: [Jobs] });
  const jobs = app.get(Jobs);
  const first = jobs.skipped();
  expect(await (returns === 'promise' ? jobs.skipped() : firstValueFrom(jobs.skippedStream()))).toBe('jobs are busy');
  const stopped = expect(returns === 'promise' ? jobs.stopped() : firstValueFrom(jobs.stoppedStream())).rejects.toThrow('jobs end');
  jobs.end();
  await stopped;
  open();
  expect(await first).toBe('done');
});

describe('Work under a lock', () => {
  it('runs in the context of its caller, as that of nestjs-cls, whoever had the lock before and however it waited', async () => {
    const cls = new AsyncLocalStorage<string>();
    class Desk {
      @Locked(function (this: Desk) {
        return `desk:${this.shared ? 'all' : cls.getStore()}`;
      })
      async serve(): Promise<string | undefined> {
        await setTimeout(1);
        return cls.getStore();
      }

      @Locked('stream', { returns: 'observable' })
      watch(): Observable<string | undefined> {
        return defer(async () => cls.getStore());
      }

      shared = true;
    }
    const app = await startApp({ providers: [Desk] });
    const [desk, locks] = [app.get(Desk), app.get(LockService)];
    const names = Array.from({ length: 20 }, (_, n) => `tenant ${n}`);
    const each = (work: () => Promise<unknown>): Promise<unknown[]> => Promise.all(names.map((name) => cls.run(name, work)));
    expect(await each(() => desk.serve())).toEqual(names);
    expect(await each(() => firstValueFrom(desk.watch()))).toEqual(names);
    expect(await each(() => locks.withLock('k', () => locks.detached(() => cls.getStore())))).toEqual(names);
    const byHand = async (): Promise<unknown> => {
      await using lease = await locks.acquire('k');
      return lease.run(() => cls.getStore());
    };
    expect(await each(byHand)).toEqual(names);
    desk.shared = false;
    expect(await each(() => desk.serve())).toEqual(names);
  });
});
