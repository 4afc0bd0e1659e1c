/** The printed price list: made anew again and again, by the instance that leads, and by no other. */
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Leader, LockService, type Lease } from 'nestjs-holdfast';
import { Ledger } from '../ledger/ledger.js';
import { PriceService } from './price.service.js';

const ROLE = 'price-list';
/** Stands for printing it, which takes long. */
const REBUILT_EVERY_MS = 500;
/** A crashed leader is replaced after this time; one that closes, at once. */
const LEASE_MS = 5_000;

export interface PriceList {
  /** In cents. */
  readonly sum: number;
  /** Whether the instance that answers leads, and how many lists it has built. */
  readonly isLeader: boolean;
  readonly built: number;
}

@Injectable()
export class PriceListService {
  private built = 0;

  constructor(
    private readonly ledger: Ledger,
    private readonly locks: LockService,
    private readonly prices: PriceService,
  ) {}

  /** Runs on one instance, from its election to the end of its term. The fence keeps a leader that slept from writing an old list. */
  @Leader(ROLE, { leaseMs: LEASE_MS })
  async rebuild({ fence, signal }: Lease): Promise<void> {
    for (;;) {
      const prices = await this.prices.list();
      await this.ledger.write('price-list', prices.reduce((sum, cents) => sum + cents, 0), fence);
      this.built += 1;
      // Rejects when the term is over, which ends the method and is no failure.
      await pause(REBUILT_EVERY_MS, undefined, { signal });
    }
  }

  async latest(): Promise<PriceList> {
    const isLeader = this.locks.leaderships.some((leadership) => leadership.role === ROLE && leadership.isLeader);
    return { sum: await this.ledger.read('price-list'), isLeader, built: this.built };
  }
}
