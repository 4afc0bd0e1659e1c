/** The price list over HTTP. */
import { Body, Controller, Get, ParseIntPipe, Put } from '@nestjs/common';
import { PriceListService, type PriceList } from './price-list.service.js';
import { PriceService } from './price.service.js';

@Controller()
export class PriceController {
  constructor(
    private readonly prices: PriceService,
    private readonly priceList: PriceListService,
  ) {}

  @Get('prices')
  list(): Promise<number[]> {
    return this.prices.list();
  }

  @Get('prices-without-lock')
  listWithoutLock(): Promise<number[]> {
    return this.prices.listWithoutLock();
  }

  @Get('price-list')
  latest(): Promise<PriceList> {
    return this.priceList.latest();
  }

  @Put('prices')
  async setAll(@Body('cents', ParseIntPipe) cents: number): Promise<void> {
    await this.prices.setAll(cents);
  }
}
