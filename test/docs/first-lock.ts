import { Injectable, Module } from '@nestjs/common';
import { Locked, LockModule, LockService } from 'nestjs-holdfast';

@Injectable()
export class OrderService {
  constructor(private readonly locks: LockService) {}

  @Locked('order:<0>')
  async pay(orderId: string): Promise<string> {
    const { fence, signal } = this.locks.currentLease()!;
    return `order ${orderId} paid under fence ${fence}${signal.aborted ? ', too late' : ''}`;
  }
}

@Module({ imports: [LockModule.forRoot({ redis: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' })], providers: [OrderService] })
export class AppModule {}
