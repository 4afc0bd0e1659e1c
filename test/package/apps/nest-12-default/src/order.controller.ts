import { Controller, HttpCode, Param, Post, UseFilters, UseInterceptors } from '@nestjs/common';
import { LockExceptionFilter, LockInterceptor, LockService } from 'nestjs-holdfast';
import { OrderService } from './order.service.js';

@Controller()
@UseFilters(LockExceptionFilter)
export class OrderController {
  private readonly carts = new Map<string, number>();

  constructor(private readonly orders: OrderService, private readonly locks: LockService) {}

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

  @Post('carts/:id')
  @UseInterceptors(LockInterceptor.of('cart:<params.id>'))
  async fill(@Param('id') id: string): Promise<number> {
    const before = this.carts.get(id) ?? 0;
    await new Promise((resolve) => setTimeout(resolve, 3));
    this.carts.set(id, before + 1);
    return before + 1;
  }
}
