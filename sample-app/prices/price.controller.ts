/** The price list over HTTP. */
import { Body, Controller, Get, ParseIntPipe, Put } from '@nestjs/common';
import { PriceService } from './price.service.js';

@Controller()
export class PriceController {
  constructor(private readonly prices: PriceService) {}

  @Get('prices')
  list(): Promise<number[]> {
    return this.prices.list();
  }

  @Get('prices-without-lock')
  listWithoutLock(): Promise<number[]> {
    return this.prices.listWithoutLock();
  }

  @Put('prices')
  async setAll(@Body('cents', ParseIntPipe) cents: number): Promise<void> {
    await this.prices.setAll(cents);
  }
}
