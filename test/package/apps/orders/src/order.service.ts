import { Injectable } from '@nestjs/common';
import { Locked, LockService } from 'nestjs-holdfast';
import { interval, map, take, type Observable } from 'rxjs';

@Injectable()
export class OrderService {
  private running = 0;
  /** The most calls that were ever inside at once. */
  atOnce = 0;
  readonly fences: number[] = [];

  constructor(private readonly locks: LockService) {}

  /** Whether there is one fence for each of so many calls, and each is above those before. */
  fencesRise(calls: number): boolean {
    return this.fences.length === calls && this.fences.every((fence, n) => n === 0 || fence > (this.fences[n - 1] ?? 0));
  }

  @Locked('order:<0.id>')
  async pay(order: { id: string }): Promise<string> {
    this.running += 1;
    this.atOnce = Math.max(this.atOnce, this.running);
    await new Promise((resolve) => setTimeout(resolve, 3));
    this.fences.push(this.locks.assertLocked(`order:${order.id}`).fence);
    this.running -= 1;
    return `paid ${order.id}`;
  }

  @Locked('busy:<0>', { waitMs: 0 })
  async hurry(orderId: string): Promise<string> {
    return `${orderId} was free`;
  }

  /** Each subscription is locked until it ends. */
  @Locked('order:<0>', { returns: 'observable' })
  steps(id: string): Observable<string> {
    return interval(1).pipe(take(3), map((step) => `${id}.${step}`));
  }
}
