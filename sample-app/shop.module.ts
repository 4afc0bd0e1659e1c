/** The shop: one module for each feature, and the locks that they share. */
import { Module } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { ConfigModule, ConfigService } from '@nestjs/config';
import { LockExceptionFilter, LockModule } from 'nestjs-holdfast';
import { LockBoardModule } from 'nestjs-holdfast/board';
import { OperatorGuard } from './board/operator.guard.js';
import { DrawModule } from './draw/draw.module.js';
import { LedgerModule } from './ledger/ledger.module.js';
import { PaymentsModule } from './payments/payments.module.js';
import { PricesModule } from './prices/prices.module.js';
import { SaleModule } from './sale/sale.module.js';
import { StocktakeModule } from './stocktake/stocktake.module.js';
import { WalletsModule } from './wallets/wallets.module.js';

@Module({
  imports: [
    ConfigModule.forRoot({ isGlobal: true }),
    LockModule.forRootAsync({
      inject: [ConfigService],
      useFactory: (config: ConfigService) => {
        const redis = config.get<string>('REDIS_URL');
        // Without Redis the locks live in this process only, which is right for one process and for nothing else.
        return redis ? { redis } : { embedded: true };
      },
    }),
    LockBoardModule.forRoot({ path: '/locks', guards: [OperatorGuard], forceRelease: true }),
    LedgerModule,
    SaleModule,
    PaymentsModule,
    PricesModule,
    WalletsModule,
    DrawModule,
    StocktakeModule,
  ],
  // Busy is 423 with Retry-After, an unreachable Redis 503, and so on.
  providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }],
})
export class ShopModule {}
