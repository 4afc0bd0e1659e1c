/** Everything of the stocktaking. */
import { Module } from '@nestjs/common';
import { StocktakeController } from './stocktake.controller.js';
import { StocktakeService } from './stocktake.service.js';

@Module({ controllers: [StocktakeController], providers: [StocktakeService] })
export class StocktakeModule {}
