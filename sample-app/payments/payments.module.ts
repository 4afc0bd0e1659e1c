/** Everything of the payments: the queue is BullMQ's when REDIS_URL is set, else one in the process. */
import { Module } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { PaymentService } from '../sale/payment.service.js';
import { BullPaymentQueue } from './bull-payment-queue.js';
import { CheckoutController } from './checkout.controller.js';
import { CheckoutService } from './checkout.service.js';
import { MemoryPaymentQueue } from './memory-payment-queue.js';
import { PaymentQueue } from './payment-job.js';
import { PaymentWorker } from './payment-worker.js';

@Module({
  controllers: [CheckoutController],
  providers: [
    CheckoutService,
    PaymentService,
    PaymentWorker,
    {
      provide: PaymentQueue,
      inject: [ConfigService, PaymentWorker],
      useFactory: (config: ConfigService, worker: PaymentWorker): PaymentQueue => {
        const url = config.get<string>('REDIS_URL');
        return url ? new BullPaymentQueue(url, worker) : new MemoryPaymentQueue(worker);
      },
    },
  ],
})
export class PaymentsModule {}
