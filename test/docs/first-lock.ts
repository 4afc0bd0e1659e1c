import { setTimeout } from 'node:timers/promises';
import { Controller, Injectable, Module, Param, Post } from '@nestjs/common';
import { APP_FILTER, NestFactory } from '@nestjs/core';
import { Locked, LockExceptionFilter, LockModule } from 'nestjs-holdfast';

@Injectable()
export class OrderService {
  @Locked('order:<0>')
  async pay(orderId: string): Promise<string> {
    await setTimeout(5); // the work: for each order one call at a time, on all instances together
    return `order ${orderId} is paid`;
  }
}

@Controller('orders')
class OrderController {
  constructor(private readonly orders: OrderService) {}

  @Post(':id/payment')
  pay(@Param('id') id: string): Promise<string> {
    return this.orders.pay(id);
  }
}

@Module({
  imports: [LockModule.forRoot({ redis: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' })],
  controllers: [OrderController],
  providers: [OrderService, { provide: APP_FILTER, useClass: LockExceptionFilter }], // a busy lock is 423
})
export class AppModule {}

export async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  app.enableShutdownHooks(); // else SIGTERM ends work in the middle, and its locks stay taken for a while
  await app.listen(process.env.PORT ?? 3000);
  return app;
}
