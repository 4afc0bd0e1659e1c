/** The recipes of docs/recipes.md on a Redis, with a lock module over each client. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ContextIdFactory, ModuleRef } from '@nestjs/core';
import { Test, type TestingModule } from '@nestjs/testing';
import { LockModule, LockService, LockLostError } from '../../lib/index.js';
import { eventually } from '../support/eventually.js';
import { gate } from '../support/locks.js';
import { startRedis } from '../support/redis-server.js';
import { OrderService, TenantService } from './examples/keys.js';
import { afterImport, Checkout, eachRow, Prices } from './examples/recipes.js';
import { forAll } from '../support/started.js';

let apps: TestingModule[];
const locksOf = (n: number): LockService => apps[n]!.get(LockService);

afterAll(() => Promise.all(apps.map((app) => app.close())));
const redis = forAll(startRedis);
beforeAll(async () => {
  apps = await Promise.all(
    (['ioredis', 'redis'] as const).map(async (client) => {
      const app = await Test.createTestingModule({ imports: [LockModule.forRoot({ redis: redis.url, client })], providers: [OrderService, TenantService] }).compile();
      return app.init().then(() => app);
    }),
  );
});

describe('The recipes', () => {
  it('compute a missing value once, for all who want it in all processes', async () => {
    const cached = new Map<string, number>();
    const cache = { get: async (id: string) => cached.get(id), set: async (id: string, price: number) => void cached.set(id, price) };
    let computed = 0;
    const compute = async (): Promise<number> => (computed += 1);
    const prices = [0, 1].map((n) => new Prices(locksOf(n), cache, compute));
    expect(new Set(await Promise.all(Array.from({ length: 20 }, (_, n) => prices[n % 2]!.price('7'))))).toEqual(new Set([1]));
    expect(computed).toBe(1);
  });

  it('wait until a writer has ended, beside others who wait for that', async () => {
    const { promise, open } = gate();
    const ends: string[] = [];
    const entered = gate();
    const writer = locksOf(0).withLock('import', async () => {
      entered.open();
      await promise;
      ends.push('import');
    });
    await entered.promise;
    const waits = [0, 1, 1].map(async (n) => {
      await afterImport(locksOf(n));
      ends.push('after');
    });
    await eventually(async () => expect((await locksOf(0).inspect('import')).waiters).not.toHaveLength(0));
    open();
    await Promise.all([writer, ...waits]);
    expect(ends).toEqual(['import', 'after', 'after', 'after']);
  });

  it('charge an order once, also when the lease was lost after the charge', async () => {
    const charges = new Map<string, string>();
    let isPaid = false;
    let loseLease = true;
    const tables = { orders: { find: async () => ({ paid: isPaid, amount: 5 }), markPaid: async () => void (isPaid = true) } };
    const provider = {
      charge: async (_amount: number, { idempotencyKey }: { idempotencyKey: string }) => {
        charges.set(idempotencyKey, charges.get(idempotencyKey) ?? `charge ${charges.size}`);
        if (loseLease) {
          await locksOf(1).forceRelease('order:7');
          await eventually(() => expect(() => locksOf(0).currentLease('order:7')!.assertHeld()).toThrow());
        }
        loseLease = false;
        return { id: charges.get(idempotencyKey)! };
      },
    };
    const checkout = new Checkout(locksOf(0), { transaction: (work) => work(tables) }, provider);
    await expect(checkout.pay('7')).rejects.toBeInstanceOf(LockLostError);
    expect(isPaid).toBe(false);
    await Promise.all([checkout.pay('7'), checkout.pay('7')]);
    expect([isPaid, charges.size]).toEqual([true, 1]);
  });

  it('keep the keys of tenants apart', async () => {
    const keys: string[] = [];
    const watched = locksOf(0).events.subscribe((event) => event.type === 'granted' && keys.push(event.key));
    for (const tenant of ['acme', 'umbrella']) {
      const contextId = ContextIdFactory.create();
      apps[0]!.get(ModuleRef).registerRequestByContextId({ headers: { 'x-tenant': tenant } }, contextId);
      await (await apps[0]!.resolve(OrderService, contextId)).pay('7');
    }
    watched.unsubscribe();
    expect(keys).toEqual(['acme:order:7', 'umbrella:order:7']);
  });

  it('lock each of many keys, with a bounded number at a time, and leave nothing', async () => {
    let most = 0;
    let inside = 0;
    const seen = new Set<string>();
    async function* ids(): AsyncGenerator<string> {
      for (let id = 0; id < 2_000; id += 1) yield String(id);
    }
    await eachRow(locksOf(0), ids(), async (id) => {
      most = Math.max(most, (inside += 1));
      seen.add(id);
      await Promise.resolve();
      inside -= 1;
    });
    expect(seen.size).toBe(2_000);
    expect(most).toBeLessThanOrEqual(64);
    await eventually(async () => {
      for await (const state of locksOf(0).list({ startsWith: 'row:' })) expect(state).toBeUndefined();
    });
  });
});
