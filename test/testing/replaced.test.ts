/** What TestLocks replaces in an application, and how it is told that it replaced nothing. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { type DynamicModule, Injectable } from '@nestjs/common';
import { Test, type TestingModule, type TestingModuleBuilder } from '@nestjs/testing';
import { Leader, type Lease, Locked, LockModule, LockService, LockStoreError, LockTimeoutError, LockUsageError } from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';
import { testModule } from '../docs/class-made-with-new.js';
import { ShipmentService } from '../docs/fence-and-signal.js';

const unreachable = 'redis://127.0.0.1:1';

@Injectable()
class OrderService {
  @Locked('order:<0>')
  async pay(id: string): Promise<string> {
    return `paid ${id}`;
  }
}

const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** An application with these lock modules, whose stores the TestLocks replace. */
async function start(modules: readonly ReturnType<typeof LockModule.forRoot>[], ...replacing: readonly TestLocks[]): Promise<TestingModule> {
  const builder = Test.createTestingModule({ imports: [...modules], providers: [OrderService] });
  for (const locks of replacing) locks.replaceIn(builder);
  const module = await builder.compile();
  await module.init();
  closing.push(() => module.close());
  return module;
}

describe('TestLocks whose name is not that of a LockModule of the application', () => {
  const told = "TestLocks: the application has no LockModule with the name 'billing', so these locks replace nothing in it. Give the name of its LockModule";

  it.each<[string, (locks: TestLocks) => unknown]>([
    ['busy', (locks) => locks.busy('order:1')],
    ['free', (locks) => locks.free('order:1')],
    ['lose', (locks) => locks.lose('order:1')],
    ['makeLate', (locks) => locks.makeLate('ticket')],
    ['storeDown', (locks) => locks.storeDown()],
    ['storeBack', (locks) => locks.storeBack()],
    ['advance', (locks) => locks.advance(5)],
  ])('are told so by %s, because nothing that is staged would reach the application', async (_name, stage) => {
    const billing = new TestLocks({ name: 'billing' });
    await start([LockModule.forRoot({ embedded: true })], billing);
    const staged = (async () => stage(billing))();
    await expect(staged).rejects.toBeInstanceOf(LockUsageError);
    await expect(staged).rejects.toThrow(told);
  });

  it('are told so in words that fit when they have no name', async () => {
    const locks = new TestLocks();
    @Injectable()
    class Bare {}
    const module = await locks.replaceIn(Test.createTestingModule({ imports: [LockModule.forRoot({ embedded: true, name: 'billing' })], providers: [Bare] })).compile();
    closing.push(() => module.close());
    await expect(locks.busy('order:1')).rejects.toThrow('TestLocks: the application has no LockModule without a name, so these locks');
  });

  it('may serve another application, of which they are told nothing then', async () => {
    const locks = new TestLocks({ name: 'billing' });
    await start([LockModule.forRoot({ embedded: true })], locks);
    await start([LockModule.forRoot({ embedded: true }), LockModule.forRoot({ redis: unreachable, name: 'billing' })], locks);
    await locks.busy('invoice:1');
  });
});

describe('TestLocks in place of a LockModule', () => {
  it('stage before the application is there, and while it is being made', async () => {
    const locks = new TestLocks();
    await locks.busy('order:1');
    const builder = locks.replaceIn(Test.createTestingModule({ imports: [LockModule.forRoot({ redis: unreachable })], providers: [OrderService] }));
    await locks.busy('order:2');
    const module = await builder.compile();
    closing.push(() => module.close());
    await locks.busy('order:3');
    await module.init();
    for (const id of ['1', '2', '3']) await expect(module.get(OrderService).pay(id)).rejects.toThrow(LockTimeoutError);
    await locks.free('order:2');
    expect(await module.get(OrderService).pay('2')).toBe('paid 2');
  });

  it('replace a module with a route as a whole, but the modules that it leads to have to be replaced as well', async () => {
    const routed = (): ReturnType<typeof LockModule.forRoot>[] => [
      LockModule.forRoot({ route: () => 'eu' }),
      LockModule.forRoot({ name: 'eu', redis: unreachable, bootTimeoutMs: 300 }),
    ];
    await expect(start(routed(), new TestLocks())).rejects.toThrow(LockStoreError);
    const locks = new TestLocks();
    const app = await start(routed(), locks, new TestLocks({ name: 'eu' }));
    await locks.busy('order:1');
    await expect(app.get(OrderService).pay('1')).rejects.toThrow(LockTimeoutError);
    await locks.free('order:1');
    expect(await app.get(LockService).isLocked('order:1')).toBe(false);
  });
});

/** Calls that ask for replicas in a user's unit test with `nestjs-holdfast/testing`: every number of replicas counts as acknowledged. */
@Injectable()
class PaymentService {
  leads = 0;

  constructor(readonly locks: LockService) {}

  @Locked('payment:<0>', { minReplicas: 2 })
  async pay(id: string): Promise<string> {
    return `paid ${id}`;
  }

  @Locked('refund:<0>')
  async refund(id: string): Promise<string> {
    return `refunded ${id}`;
  }

  @Leader('settlement', { minReplicas: 1 })
  async settle({ signal }: Lease): Promise<void> {
    this.leads += 1;
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
  }
}

async function startWith(builder: TestingModuleBuilder): Promise<PaymentService> {
  const module = await builder.compile();
  await module.init();
  closing.push(() => module.close());
  return module.get(PaymentService);
}

const importing = (module: DynamicModule): TestingModuleBuilder => Test.createTestingModule({ imports: [module], providers: [PaymentService] });

describe('an application whose locks need replicas', () => {
  it('boots with TestLocks in place of its Redis, and its locked methods and calls are served', async () => {
    const test = new TestLocks();
    const payments = await startWith(test.replaceIn(importing(LockModule.forRoot({ redis: unreachable, minReplicas: 1 }))));
    expect(await payments.pay('1')).toBe('paid 1');
    expect(await payments.refund('1')).toBe('refunded 1');
    expect(await payments.locks.withLock('report', async () => 'sent')).toBe('sent');
    await test.advance(100);
    expect(payments.leads).toBe(1);
  });

  it('has its locks from asModule, whose own default may ask for replicas too', async () => {
    const test = new TestLocks({ minReplicas: 1 });
    const payments = await startWith(importing(test.asModule()));
    expect(await payments.pay('1')).toBe('paid 1');
    await test.busy('refund:1');
    await expect(payments.refund('1')).rejects.toThrow(LockTimeoutError);
    await test.free('refund:1');
    expect(await payments.refund('1')).toBe('refunded 1');
  });
});

describe('An object made with new', () => {
  it('refuses its locked methods, because it has no lock module', async () => {
    await expect(new ShipmentService(new TestLocks().locks).ship('1')).rejects.toThrow(LockUsageError);
  });

  it('locks when a factory of a test module made it and the module was initialized', async () => {
    const locks = new TestLocks();
    const module = await testModule(locks);
    const shipments = module.get(ShipmentService);
    expect(await shipments.ship('1')).toMatch(/^order 1 shipped under fence \d+$/);
    await locks.busy('order:1');
    await expect(shipments.ship('1')).rejects.toThrow(LockTimeoutError);
    await module.close();
  });
});
