/** The price list: read by everybody at once, and never while it is being changed. */
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { LockService, ReadLock, WriteLock } from 'nestjs-holdfast';
import { Ledger } from '../ledger/ledger.js';

const ITEMS = [1, 2, 3, 4, 5];
/** Stands for the price feed, which tells one price after the other. */
const FEED_MS = 2;

@Injectable()
export class PriceService {
  constructor(
    private readonly ledger: Ledger,
    private readonly locks: LockService,
  ) {}

  /** The price of every item in cents. Readers share the lock; a change waits for them and then has it alone. */
  @ReadLock('prices')
  async list(): Promise<number[]> {
    return this.readAll();
  }

  /** The same without the lock: only for comparison. */
  async listWithoutLock(): Promise<number[]> {
    return this.readAll();
  }

  /** One price for everything. */
  @WriteLock('prices')
  async setAll(cents: number): Promise<void> {
    const { fence } = this.locks.assertLocked('prices');
    for (const item of ITEMS) {
      await pause(FEED_MS);
      await this.ledger.write(priceOf(item), cents, fence);
    }
  }

  private readAll(): Promise<number[]> {
    return Promise.all(ITEMS.map((item) => this.ledger.read(priceOf(item))));
  }
}

function priceOf(item: number): string {
  return `price:${item}`;
}
