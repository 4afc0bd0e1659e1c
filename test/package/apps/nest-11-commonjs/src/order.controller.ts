import { Controller, Get, HttpCode, Param, Post, UseFilters } from '@nestjs/common';
import { HealthCheck, HealthCheckService } from '@nestjs/terminus';
import { LockExceptionFilter, LockService } from 'nestjs-holdfast';
import { LockHealthIndicator } from 'nestjs-holdfast/terminus';
import { OrderService } from './order.service';

@Controller()
@UseFilters(LockExceptionFilter)
export class OrderController {
  constructor(
    private readonly orders: OrderService,
    private readonly locks: LockService,
    private readonly health: HealthCheckService,
    private readonly lockHealth: LockHealthIndicator,
  ) {}

  @Post('orders/:id')
  @HttpCode(202)
  pay(@Param('id') id: string): Promise<string> {
    return this.orders.pay({ id });
  }

  /** Asks for what a stranger holds. */
  @Post('busy/:id')
  async busy(@Param('id') id: string): Promise<string> {
    await using lease = await this.locks.acquire(`busy:${id}`);
    return await this.locks.detached(() => this.orders.hurry(lease.key.slice('busy:'.length)));
  }

  @Get('health')
  @HealthCheck()
  check() {
    return this.health.check([() => this.lockHealth.pingCheck('locks')]);
  }
}
