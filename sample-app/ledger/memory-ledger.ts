/** The ledger of a shop that runs as one process without Redis. */
import { Injectable } from '@nestjs/common';
import { Ledger, StaleFenceError } from './ledger.js';

@Injectable()
export class MemoryLedger extends Ledger {
  private readonly entries = new Map<string, { value: number; fence: number }>();

  async read(name: string): Promise<number> {
    return this.entries.get(name)?.value ?? 0;
  }

  async write(name: string, value: number, fence: number): Promise<void> {
    const newest = this.entries.get(name)?.fence ?? 0;
    // Equal is fine: one hold may write several times.
    if (fence < newest) throw new StaleFenceError(name, fence);
    this.entries.set(name, { value, fence });
  }

  async writeUnguarded(name: string, value: number): Promise<void> {
    this.entries.set(name, { value, fence: this.entries.get(name)?.fence ?? 0 });
  }
}
