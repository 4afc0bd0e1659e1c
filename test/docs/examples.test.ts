/** The examples of the docs: each stands in a file that is compiled with the tests, or is one of these tests itself. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ContextIdFactory, ModuleRef } from '@nestjs/core';
import { Test, type TestingModule } from '@nestjs/testing';
import type { Redis } from 'ioredis';
import { LockLostError, LockModule, LockService } from '../../lib/index.js';
import { eventually } from '../support/eventually.js';
import { gate } from '../support/locks.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { deposit } from './examples/fencing.js';
import { Payments } from './examples/handing-off.js';
import { byHand, Orders, OrderService, TenantService } from './examples/keys.js';
import { leadByHand } from './examples/leading.js';
import { afterImport, Checkout, eachRow, Prices } from './examples/recipes.js';
import { Shop } from './examples/reentry.js';

const PAGES = ['README.md', ...readdirSync('docs').filter((name) => name.endsWith('.md') && name !== 'api.md').map((name) => `docs/${name}`)];
/** The configuration of Vitest, which this project does not install. */
const OF_OTHERS = "import swc from 'unplugin-swc';";
const compiled = readdirSync('test/docs').filter((name) => name.endsWith('.ts')).map((name) => withoutLayout(readFileSync(`test/docs/${name}`, 'utf8')));

/** The text without indentation, empty lines, and the spaces in front of comments. */
function withoutLayout(text: string): string {
  return text.split('\n').map((line) => line.trim().replace(/\s+\/\//g, ' //')).join('\n');
}

/** The paragraphs of all TypeScript on a page: parts of a class and statements of a function stand side by side there. */
function examplesOf(page: string): string[] {
  const blocks = [...readFileSync(page, 'utf8').matchAll(/^ *```ts\n(.*?)^ *```/gms)].map(([, code]) => withoutLayout(code!).trim());
  return blocks.filter((block) => !block.startsWith(OF_OTHERS)).flatMap((block) => (compiled.includes(`${block}\n`) ? [] : block.split('\n\n')));
}

/** Finds the example; where it leaves something out (…), the compiled code may have anything on that line. */
function isCompiled(example: string, sources: readonly string[]): boolean {
  const pattern = new RegExp(example.split('…').map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('.*'));
  return sources.some((source) => pattern.test(source));
}

describe('Every example of the docs', () => {
  it.each(PAGES)('is compiled: %s', (page) => {
    const own = [`test/docs/examples/${page.slice(5, -3)}.ts`, `test/docs/examples/${page.slice(5, -3)}.test.ts`].filter((file) => existsSync(file));
    const sources = [...own.map((file) => withoutLayout(readFileSync(file, 'utf8'))), ...compiled];
    expect(examplesOf(page).filter((example) => !isCompiled(example, sources))).toEqual([]);
  });
});

const held: string[] = [];
const noteKey = async (): Promise<void> => void held.push(locks.currentLease()!.key);
const server = forAll(startRedis);
/** With a lock module over each client. */
let apps: TestingModule[];
const locksOf = (n: number): LockService => apps[n]!.get(LockService);
let app: TestingModule;
let locks: LockService;
let redis: Redis;

beforeAll(async () => {
  redis = server.client();
  const providers = [Shop, OrderService, TenantService, { provide: Orders, useFactory: () => new Orders(noteKey) }];
  apps = await Promise.all(
    (['ioredis', 'redis'] as const).map(async (client) => {
      const made = await Test.createTestingModule({ imports: [LockModule.forRoot({ redis: server.url, client })], providers }).compile();
      return made.init().then(() => made);
    }),
  );
  [app, locks] = [apps[0]!, locksOf(0)];
});
afterAll(() => Promise.all(apps.map((each) => each.close())));

describe('The examples', () => {
  it('write under the fence of their lock', async () => {
    await Promise.all([deposit(locks, redis), deposit(locks, redis)]);
    expect(await redis.hget('account:7:data', 'balance')).toBe('200');
  });

  it('hand a hold from a request to a worker, whose fence is higher', async () => {
    const paid: number[] = [];
    const jobs: { id: string; ticket: string }[] = [];
    const orders = { check: async () => void paid.push(locks.currentLease()!.fence), pay: async (_id: string, fence: number) => void paid.push(fence) };
    const payments = new Payments(locks, orders, { add: async (_name, data) => void jobs.push(data) });
    await payments.request('7');
    expect(await locks.isLocked('order:7')).toBe(true);
    await payments.process({ data: jobs[0]! } as Parameters<Payments['process']>[0]);
    expect(paid[1]).toBeGreaterThan(paid[0]!);
    expect(await locks.isLocked('order:7')).toBe(false);
  });

  it('stand for a role and stop', async () => {
    await leadByHand(locks, async (term) => void (await new Promise((done) => term.signal.addEventListener('abort', done))));
    expect(await locks.leader('indexer')).toBeNull();
  });

  it('name the same locks by hand as decorators do', async () => {
    await app.get(Orders).pay('urn:isbn:0451450523');
    await app.get(Orders).pack('a:b', 'c');
    await byHand(locks, 'urn:isbn:0451450523', 'a:b', 'c', noteKey);
    const keys = ['order:urn:isbn:0451450523', 'line:a%3Ab:c'];
    expect(held).toEqual([...keys, ...keys]);
  });

  it('re-enter their lock, and take several at once', async () => {
    const shop = app.get(Shop);
    await shop.pay('7');
    await shop.transfer('a', 'b', 5);
    expect(shop.done).toEqual(['reserved 7', '5 from a to b']);
  });
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
      app.get(ModuleRef).registerRequestByContextId({ headers: { 'x-tenant': tenant } }, contextId);
      await (await app.resolve(OrderService, contextId)).pay('7');
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
