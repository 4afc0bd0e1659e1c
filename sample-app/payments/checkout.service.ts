/** The request's part of a purchase: it locks the order, and hands the lock to the worker that takes the payment. */
import { Injectable } from '@nestjs/common';
import { lockKey, LockService } from 'nestjs-holdfast';
import { Ledger } from '../ledger/ledger.js';
import { PaymentQueue } from './payment-job.js';

/** How long a worker has to begin. After that the order is free again, whatever became of the job. */
export const PAID_WITHIN_MS = 1_500;

export const paidOf = (order: number): string => `paid:${order}`;
const orderKey = (order: number): string => lockKey`order:${order}`;

@Injectable()
export class CheckoutService {
  constructor(
    private readonly locks: LockService,
    private readonly ledger: Ledger,
    private readonly queue: PaymentQueue,
  ) {}

  /** Rejects with LockTimeoutError, which is answered with 423, while the order is being paid. */
  async checkOut(order: number, crash: boolean): Promise<void> {
    await this.locks.withLock(orderKey(order), { waitMs: 0 }, async (lease) => {
      await this.ledger.write(paidOf(order), 0, lease.fence);
      const ticket = await lease.handOff({ withinMs: PAID_WITHIN_MS });
      await this.queue.add({ order, ticket, crash });
    });
  }

  async state(order: number): Promise<{ paid: boolean; busy: boolean }> {
    return { paid: (await this.ledger.read(paidOf(order))) === 1, busy: await this.locks.isLocked(orderKey(order)) };
  }
}
