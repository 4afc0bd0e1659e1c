/** The examples of docs/options.md that stand in no file of their own. */
import type { DynamicModule } from '@nestjs/common';
import { Locked, LockModule, type LockService } from 'nestjs-holdfast';

export function withProfiles(redis: string): DynamicModule {
  return (
    LockModule.forRoot({ redis, profiles: { batch: { leaseMs: 60_000, waitMs: 0, onBusy: 'skip' } } })
  );
}

export class Imports {
  constructor(private readonly work: () => Promise<void>) {}

  @Locked('import', { profile: 'batch' })
  async import(): Promise<void> { await this.work(); }
}

export async function importByHand(locks: LockService, work: () => Promise<void>): Promise<void> {
  await locks.withLock('import', { profile: 'batch', leaseMs: 30_000 }, work);
}
