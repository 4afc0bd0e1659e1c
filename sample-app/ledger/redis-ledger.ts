/** The ledger of a shop that runs as several processes: one small hash per number, shared through Redis. */
import { Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import { Redis } from 'ioredis';
import { writeFenced } from 'nestjs-holdfast';
import { Ledger, StaleFenceError } from './ledger.js';

@Injectable()
export class RedisLedger extends Ledger implements OnApplicationShutdown {
  private readonly redis: Redis;

  constructor(url: string) {
    super();
    // Connects with the first command: whether Redis can be reached at boot is asked once, by LockModule.
    this.redis = new Redis(url, { lazyConnect: true });
    this.redis.on('error', (error) => new Logger(RedisLedger.name).error(error));
  }

  async read(name: string): Promise<number> {
    return Number(await this.redis.hget(redisKey(name), 'value'));
  }

  async write(name: string, value: number, fence: number): Promise<void> {
    // In SQL the same is `UPDATE … SET value = $1, fence = $2 WHERE name = $3 AND fence <= $2`.
    const outcome = await writeFenced(this.redis, redisKey(name), fence, { value });
    if (outcome === 'stale') throw new StaleFenceError(name, fence);
  }

  async writeUnguarded(name: string, value: number): Promise<void> {
    await this.redis.hset(redisKey(name), 'value', value);
  }

  async onApplicationShutdown(): Promise<void> {
    await this.redis.quit();
  }
}

function redisKey(name: string): string {
  return `shop:${name}`;
}
