import { Test } from '@nestjs/testing';
import { LockTimeoutError } from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';
import { AppModule, OrderService } from './first-lock.js';

it('refuses a busy order', async () => {
  const locks = new TestLocks();
  const module = await locks.replaceIn(Test.createTestingModule({ imports: [AppModule] })).compile();
  await locks.busy('order:1');
  await expect(module.get(OrderService).pay('1')).rejects.toThrow(LockTimeoutError);
  await module.close();
});
