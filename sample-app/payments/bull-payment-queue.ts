/** The queue of many processes: BullMQ keeps the jobs in Redis, and each instance of the shop has a worker. */
import { Logger, type OnModuleDestroy } from '@nestjs/common';
import { Queue, Worker, type ConnectionOptions } from 'bullmq';
import { PaymentQueue, type PaymentJob } from './payment-job.js';
import type { PaymentWorker } from './payment-worker.js';

const NAME = 'payments';

export class BullPaymentQueue extends PaymentQueue implements OnModuleDestroy {
  private readonly queue: Queue<PaymentJob>;
  private readonly worker: Worker<PaymentJob>;

  constructor(url: string, worker: PaymentWorker) {
    super();
    const connection = connectionOf(url);
    const logger = new Logger('Payments');
    this.queue = new Queue(NAME, { connection, defaultJobOptions: { removeOnComplete: true, removeOnFail: true } });
    this.worker = new Worker<PaymentJob>(NAME, ({ data }) => worker.pay(data), { connection });
    this.queue.on('error', ({ message }) => logger.warn(message));
    this.worker.on('error', ({ message }) => logger.warn(message));
    this.worker.on('failed', (_job, error) => logger.warn(error.message));
  }

  async add(job: PaymentJob): Promise<void> {
    await this.queue.add('pay', job);
  }

  async onModuleDestroy(): Promise<void> {
    await Promise.all([this.worker.close(), this.queue.close()]);
  }
}

function connectionOf(url: string): ConnectionOptions {
  const { hostname, port, username, password, pathname } = new URL(url);
  return { host: hostname, port: Number(port || 6379), username: username || undefined, password: password || undefined, db: Number(pathname.slice(1) || 0) };
}
