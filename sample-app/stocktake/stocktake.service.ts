/** Counting a shelf: slow work under a lock. Once as it should be, and once by somebody who falls asleep over it. */
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Locked, LockService } from 'nestjs-holdfast';
import { Ledger } from '../ledger/ledger.js';
import { itemKey, stockOf } from '../sale/stock.js';

const SHORT_LEASE_MS = 400;

@Injectable()
export class StocktakeService {
  constructor(
    private readonly ledger: Ledger,
    private readonly locks: LockService,
  ) {}

  /**
   * Counts as long as it takes: the lease is renewed meanwhile, though not beyond `maxHoldMs`. If the lock is lost all
   * the same (an operator took it away, Redis was gone for too long), `signal` stops the work at once.
   */
  @Locked('item:<0>', { maxHoldMs: 600_000 })
  async count(item: number, seconds: number): Promise<number> {
    const { fence, signal } = this.locks.assertLocked(itemKey(item));
    const pieces = await this.ledger.read(stockOf(item));
    await pause(seconds * 1000, undefined, { signal });
    await this.ledger.write(stockOf(item), pieces, fence);
    return pieces;
  }

  /**
   * What a process does that is frozen in mid-work: no renewal, no look at `signal`, and on waking up it writes what it
   * knew. Its lease has ended, perhaps a piece was sold since, and only the fence can keep the old count out.
   */
  async countAsleep(item: number): Promise<number> {
    await using lease = await this.locks.acquire(itemKey(item), { leaseMs: SHORT_LEASE_MS, renew: false });
    const pieces = await this.ledger.read(stockOf(item));
    await pause(3 * SHORT_LEASE_MS);
    await this.ledger.write(stockOf(item), pieces, lease.fence);
    return pieces;
  }
}
