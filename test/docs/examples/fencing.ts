/** The example of docs/fencing.md. */
import type { Redis } from 'ioredis';
import type { LockService } from 'nestjs-holdfast';
import { writeFenced } from 'nestjs-holdfast';

export async function deposit(locks: LockService, redis: Redis): Promise<void> {
  await locks.withLock('account:7', async (lease) => {
    const write = async (fields: Record<string, number>) => {
      if ((await writeFenced(redis, 'account:7:data', lease.fence, fields)) === 'stale') throw new Error('a newer holder was here');
    };
    await write({}); // no fields: it claims the hash
    const balance = Number(await redis.hget('account:7:data', 'balance'));
    await write({ balance: balance + 100 });
  });
}
