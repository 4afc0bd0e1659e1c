/** The flash sale over HTTP. */
import { Body, Controller, Get, Param, ParseIntPipe, Post, Put } from '@nestjs/common';
import { OrderService } from './order.service.js';

@Controller('items/:item')
export class OrderController {
  constructor(private readonly orders: OrderService) {}

  @Post('orders')
  async buy(@Param('item', ParseIntPipe) item: number): Promise<{ left: number }> {
    return { left: await this.orders.buy(item) };
  }

  @Post('orders-without-lock')
  async buyWithoutLock(@Param('item', ParseIntPipe) item: number): Promise<{ left: number }> {
    return { left: await this.orders.buyWithoutLock(item) };
  }

  @Get('stock')
  async stock(@Param('item', ParseIntPipe) item: number): Promise<{ pieces: number; busy: boolean }> {
    return { pieces: await this.orders.stock(item), busy: await this.orders.isBusy(item) };
  }

  @Put('stock')
  async restock(
    @Param('item', ParseIntPipe) item: number,
    @Body('pieces', ParseIntPipe) pieces: number,
  ): Promise<void> {
    await this.orders.restock(item, pieces);
  }
}
