/** Pays orders: adopts the hold that the request handed off, and writes under its fence. Nobody else had the order in between. */
import { Injectable } from '@nestjs/common';
import { LockService } from 'nestjs-holdfast';
import { Ledger } from '../ledger/ledger.js';
import { PaymentService } from '../sale/payment.service.js';
import { paidOf } from './checkout.service.js';
import type { PaymentJob } from './payment-job.js';

@Injectable()
export class PaymentWorker {
  constructor(
    private readonly locks: LockService,
    private readonly ledger: Ledger,
    private readonly payment: PaymentService,
  ) {}

  /** Rejects with LockLostError when the ticket came too late, or was adopted already by another run of this job. */
  async pay({ order, ticket, crash }: PaymentJob): Promise<void> {
    // A process that ends says nothing: the ticket is not adopted, and after its time the order is free again.
    if (crash) return;
    await this.locks.withAdopted(ticket, { leaseMs: 5_000 }, async ({ fence }) => {
      await this.payment.charge();
      await this.ledger.write(paidOf(order), 1, fence);
    });
  }
}
