import { Test } from '@nestjs/testing';
import { LockService } from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';
import { ShipmentService } from './fence-and-signal.js';

export async function testModule(locks: TestLocks) {
  const module = await Test.createTestingModule({
    imports: [locks.asModule()],
    providers: [
      { provide: ShipmentService, inject: [LockService], useFactory: (service) => new ShipmentService(service) },
    ],
  }).compile();
  return module.init(); // here the object gets its locks
}
