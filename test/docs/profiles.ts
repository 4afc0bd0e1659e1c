import { Injectable } from '@nestjs/common';
import { Locked, LockModule, LockService } from 'nestjs-holdfast';

export const locksWithProfiles = LockModule.forRoot({
  redis: process.env.REDIS_URL,
  profiles: { batch: { leaseMs: 60_000, waitMs: 0, onBusy: 'skip' } },
});

@Injectable()
export class Prices {
  constructor(private readonly locks: LockService) {}

  @Locked('import', { profile: 'batch' })
  async import(): Promise<string | undefined> {
    return 'imported';
  }

  async importOne(id: string): Promise<string> {
    return this.locks.withLock(`import:${id}`, { profile: 'batch', leaseMs: 30_000 }, () => `${id} is imported`);
  }
}
