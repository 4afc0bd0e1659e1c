/** Stocktaking over HTTP. */
import { Controller, DefaultValuePipe, Param, ParseIntPipe, Post, Query } from '@nestjs/common';
import { StocktakeService } from './stocktake.service.js';

@Controller('items/:item')
export class StocktakeController {
  constructor(private readonly stocktake: StocktakeService) {}

  @Post('stocktake')
  async count(
    @Param('item', ParseIntPipe) item: number,
    @Query('seconds', new DefaultValuePipe(5), ParseIntPipe) seconds: number,
  ): Promise<{ pieces: number }> {
    return { pieces: await this.stocktake.count(item, seconds) };
  }

  @Post('stocktake-asleep')
  async countAsleep(@Param('item', ParseIntPipe) item: number): Promise<{ pieces: number }> {
    return { pieces: await this.stocktake.countAsleep(item) };
  }
}
