/** Orders over HTTP: the answer to a checkout is that it was accepted, and the payment follows. */
import { Controller, Get, HttpCode, Param, ParseBoolPipe, ParseIntPipe, Post, Query } from '@nestjs/common';
import { CheckoutService } from './checkout.service.js';

@Controller('orders/:order')
export class CheckoutController {
  constructor(private readonly checkout: CheckoutService) {}

  @Post('checkout')
  @HttpCode(202)
  async checkOut(
    @Param('order', ParseIntPipe) order: number,
    @Query('crash', new ParseBoolPipe({ optional: true })) crash = false,
  ): Promise<void> {
    await this.checkout.checkOut(order, crash);
  }

  @Get()
  state(@Param('order', ParseIntPipe) order: number): Promise<{ paid: boolean; busy: boolean }> {
    return this.checkout.state(order);
  }
}
