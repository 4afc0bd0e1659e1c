import { Test } from '@nestjs/testing';
import { LockTimeoutError } from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';
import { AppModule, OrderService } from './first-lock.js';

export async function busyOrderIsRefused(): Promise<void> {
  const locks = new TestLocks();
  const module = await locks.replaceIn(Test.createTestingModule({ imports: [AppModule] })).compile();
  await locks.busy('order:1');
  const refusal: unknown = await module.get(OrderService).pay('1').catch((error: unknown) => error);
  if (!(refusal instanceof LockTimeoutError)) throw new Error('the order was not busy');
  await module.close();
}
