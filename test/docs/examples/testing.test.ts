/** The examples of docs/testing.md, run as a reader's tests would be. */
import { expect, it, jest } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-holdfast';
import { Test } from '@nestjs/testing';
import { LockTimeoutError } from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';

@Injectable()
class OrderService {
  @Locked('order:<0>')
  async pay(orderId: string): Promise<string> {
    return `order ${orderId} is paid`;
  }
}

it('reports an order that is being paid already', async () => {
  const locks = new TestLocks();
  const app = await Test.createTestingModule({ imports: [locks.asModule()], providers: [OrderService] }).compile();
  await app.init();
  await locks.busy('order:1');
  await expect(app.get(OrderService).pay('1')).rejects.toThrow(LockTimeoutError); // at once: see below
  await app.close();
});

it('has locks that the fake timers of the runner do not reach', async () => {
  const locks = new TestLocks();
  const app = await Test.createTestingModule({ imports: [locks.asModule()], providers: [OrderService] }).compile();
  const orders = (await app.init()).get(OrderService);
  const lease = await locks.locks.acquire('order:2', { renew: false });

  jest.useFakeTimers();
  await locks.busy('order:1');
  await expect(orders.pay('1')).rejects.toThrow(LockTimeoutError); // at once, no timer has to be advanced
  await jest.advanceTimersByTimeAsync(60_000); // your timers; no lease has ended by it
  await locks.advance(60_000); // the leases; none of your timers has fired by it
  expect(lease.signal.aborted).toBe(true);
  const later = await locks.locks.acquire('order:2', { renew: false });
  await jest.advanceTimersByTimeAsync(60_000);
  expect(later.remainingMs).toBeGreaterThan(0);
  jest.useRealTimers();

  await later.release();
  await app.close();
});
