import { Processor, WorkerHost } from '@nestjs/bullmq';
import { Injectable } from '@nestjs/common';
import { DelayedError, type Job } from 'bullmq';
import { LockClosedError, LockTimeoutError, Locked } from 'nestjs-holdfast';

@Injectable()
export class Payments {
  readonly paid: string[] = [];

  @Locked('order:<0>')
  async pay(orderId: string): Promise<void> {
    this.paid.push(orderId);
  }
}

@Processor('payments')
export class PaymentJobs extends WorkerHost {
  constructor(private readonly payments: Payments) {
    super();
  }

  override async process(job: Job<{ orderId: string }>, token?: string): Promise<void> {
    try {
      await this.payments.pay(job.data.orderId);
    } catch (error) {
      // Nothing was begun: this process stops, or the lock stayed busy. The job goes back and counts no attempt.
      if (!(error instanceof LockClosedError || error instanceof LockTimeoutError)) throw error;
      await job.moveToDelayed(Date.now() + 1_000, token);
      throw new DelayedError();
    }
  }
}
