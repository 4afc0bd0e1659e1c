/** The flash sale: many buyers, few pieces, and between reading the stock and writing it a payment takes its time. */
import { GoneException, Injectable } from '@nestjs/common';
import { Locked, LockService } from 'nestjs-holdfast';
import { Ledger } from '../ledger/ledger.js';
import { PaymentService } from './payment.service.js';
import { itemKey, stockOf } from './stock.js';

@Injectable()
export class OrderService {
  constructor(
    private readonly ledger: Ledger,
    private readonly locks: LockService,
    private readonly payment: PaymentService,
  ) {}

  /** Sells one piece and says how many are left. One buyer of this item at a time in the fleet, other items go on. */
  @Locked('item:<0>')
  async buy(item: number): Promise<number> {
    const left = await this.payForOne(item);
    await this.ledger.write(stockOf(item), left, this.fence(item));
    return left;
  }

  /** The same steps without the lock: only for comparison. */
  async buyWithoutLock(item: number): Promise<number> {
    const left = await this.payForOne(item);
    await this.ledger.writeUnguarded(stockOf(item), left);
    return left;
  }

  /** Whoever changes the stock takes the lock of the item, the warehouse too. */
  @Locked('item:<0>')
  async restock(item: number, pieces: number): Promise<void> {
    await this.ledger.write(stockOf(item), pieces, this.fence(item));
  }

  stock(item: number): Promise<number> {
    return this.ledger.read(stockOf(item));
  }

  /** Whether somebody is selling, restocking or counting this item right now. */
  isBusy(item: number): Promise<boolean> {
    return this.locks.isLocked(itemKey(item));
  }

  private async payForOne(item: number): Promise<number> {
    const pieces = await this.stock(item);
    if (pieces <= 0) throw new GoneException(`item ${item} is sold out`);
    await this.payment.charge();
    return pieces - 1;
  }

  /** The fence of the hold that this call runs in. Throws when there is none: no lock, no change of the stock. */
  private fence(item: number): number {
    return this.locks.assertLocked(itemKey(item)).fence;
  }
}
