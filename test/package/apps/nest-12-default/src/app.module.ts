import { Module } from '@nestjs/common';
import { LockModule } from 'nestjs-holdfast';
import { LockBoardModule } from 'nestjs-holdfast/board';
import { OrderController } from './order.controller.js';
import { OrderService } from './order.service.js';

const redis = process.env.REDIS_URL;

@Module({
  imports: [LockModule.forRoot(redis === undefined ? { embedded: true } : { redis }), LockBoardModule.forRoot({ path: '/locks' })],
  controllers: [OrderController],
  providers: [OrderService],
})
export class AppModule {}
