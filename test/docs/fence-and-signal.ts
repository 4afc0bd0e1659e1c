import { setTimeout } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Locked, LockService } from 'nestjs-holdfast';

@Injectable()
export class ShipmentService {
  constructor(private readonly locks: LockService) {}

  @Locked('order:<0>')
  async ship(orderId: string): Promise<string> {
    const { fence, signal } = this.locks.assertLocked(`order:${orderId}`);
    await setTimeout(5, undefined, { signal }); // whatever takes a signal stops when the lease is lost
    return `order ${orderId} shipped under fence ${fence}`; // a database can refuse a lower fence
  }
}
