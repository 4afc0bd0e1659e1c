import { Injectable } from '@nestjs/common';
import { Locked, LockService } from 'nestjs-holdfast';

@Injectable()
export class OrderService {
  private running = 0;
  /** The most calls that were ever inside at once. */
  atOnce = 0;
  readonly fences: number[] = [];

  constructor(private readonly locks: LockService) {}

  @Locked('order:<0>')
  async pay(orderId: string): Promise<string> {
    this.running += 1;
    this.atOnce = Math.max(this.atOnce, this.running);
    await new Promise((resolve) => setTimeout(resolve, 3));
    this.fences.push(this.locks.assertLocked(`order:${orderId}`).fence);
    this.running -= 1;
    return `paid ${orderId}`;
  }

  @Locked('busy:<0>', { waitMs: 0 })
  async hurry(orderId: string): Promise<string> {
    return `${orderId} was free`;
  }
}
