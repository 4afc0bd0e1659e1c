/** The examples of docs/leading.md. */
import type { LockHolder, LockService } from 'nestjs-holdfast';
import { Injectable } from '@nestjs/common';
import { Leader, type Lease } from 'nestjs-holdfast';

export interface IndexService {
  indexNextBatch(fence: number): Promise<void>;
}

@Injectable()
export class IndexService {
  @Leader('indexer')
  async index(term: Lease): Promise<void> {
    while (!term.signal.aborted) await this.indexNextBatch(term.fence);
  }
}

export async function leadByHand(locks: LockService, index: (term: Lease) => Promise<void>): Promise<LockHolder | null> {
  await using leadership = locks.lead('indexer', async (term) => { await index(term); }, { restMs: 5_000 });
  leadership.isLeader;                         // compares the clock: exact even after a blocked event loop
  const holder = await locks.leader('indexer'); // who leads, in whichever process: id, label, fence, remainingMs; or null
  await leadership.stop();                     // stands no more, and resolves when the function has ended
  return holder;
}
