/** Everything of the price list. */
import { Module } from '@nestjs/common';
import { PriceController } from './price.controller.js';
import { PriceListService } from './price-list.service.js';
import { PriceService } from './price.service.js';

@Module({ controllers: [PriceController], providers: [PriceService, PriceListService] })
export class PricesModule {}
