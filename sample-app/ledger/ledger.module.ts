/** Gives every feature of the shop its ledger: in Redis when REDIS_URL is set, else in memory. */
import { Global, Module } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { Ledger } from './ledger.js';
import { MemoryLedger } from './memory-ledger.js';
import { RedisLedger } from './redis-ledger.js';

@Global()
@Module({
  providers: [
    {
      provide: Ledger,
      inject: [ConfigService],
      useFactory: (config: ConfigService): Ledger => {
        const url = config.get<string>('REDIS_URL');
        return url ? new RedisLedger(url) : new MemoryLedger();
      },
    },
  ],
  exports: [Ledger],
})
export class LedgerModule {}
