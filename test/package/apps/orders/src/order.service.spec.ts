import { Test, type TestingModule } from '@nestjs/testing';
import { LockLostError, LockTimeoutError } from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';
import { AppModule } from './app.module.js';
import { OrderService } from './order.service.js';

describe('OrderService', () => {
  let locks: TestLocks;
  let module: TestingModule;

  beforeEach(async () => {
    locks = new TestLocks();
    module = await locks.replaceIn(Test.createTestingModule({ imports: [AppModule] })).compile();
  });

  afterEach(() => module.close());

  it('pays one order at a time', async () => {
    const orders = module.get(OrderService);
    await Promise.all([orders.pay({ id: '1' }), orders.pay({ id: '1' }), orders.pay({ id: '1' })]);
    expect(orders.atOnce).toBe(1);
  });

  it('pays different orders at once', async () => {
    const orders = module.get(OrderService);
    await Promise.all([orders.pay({ id: '1' }), orders.pay({ id: '2' })]);
    expect(orders.atOnce).toBe(2);
  });

  it('refuses a busy order', async () => {
    await locks.busy('order:1');
    await expect(module.get(OrderService).pay({ id: '1' })).rejects.toBeInstanceOf(LockTimeoutError);
  });

  it('is told of a loss', async () => {
    await expect(locks.locks.withLock('order:2', () => locks.lose('order:2'))).rejects.toBeInstanceOf(LockLostError);
  });
});
