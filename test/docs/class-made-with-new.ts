import { Test } from '@nestjs/testing';
import { LockService } from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';
import { OrderService } from './first-lock.js';

export async function testModule(locks: TestLocks) {
  const module = await Test.createTestingModule({
    imports: [locks.asModule()],
    providers: [{ provide: OrderService, inject: [LockService], useFactory: (service: LockService) => new OrderService(service) }],
  }).compile();
  return module.init(); // here the object gets its locks
}
