/** The queue of one process: each job runs when the request that brought it has been answered. */
import { Injectable, Logger } from '@nestjs/common';
import { PaymentQueue, type PaymentJob } from './payment-job.js';
import { PaymentWorker } from './payment-worker.js';

@Injectable()
export class MemoryPaymentQueue extends PaymentQueue {
  private readonly logger = new Logger('Payments');

  constructor(private readonly worker: PaymentWorker) {
    super();
  }

  async add(job: PaymentJob): Promise<void> {
    setImmediate(() => this.worker.pay(job).catch((error: unknown) => this.logger.warn(String(error))));
  }
}
