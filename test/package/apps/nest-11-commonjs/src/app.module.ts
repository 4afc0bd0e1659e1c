import { Module } from '@nestjs/common';
import { TerminusModule } from '@nestjs/terminus';
import { LockModule } from 'nestjs-holdfast';
import { LockHealthIndicator } from 'nestjs-holdfast/terminus';
import { OrderController } from './order.controller';
import { OrderService } from './order.service';

const redis = process.env.REDIS_URL;

@Module({
  imports: [TerminusModule, LockModule.forRoot(redis === undefined ? { embedded: true } : { redis })],
  controllers: [OrderController],
  providers: [OrderService, LockHealthIndicator],
})
export class AppModule {}
