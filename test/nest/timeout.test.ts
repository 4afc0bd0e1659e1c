import { describe, expect, it, jest } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { hostname } from 'node:os';
import { Locked, LockModule, LockService, LockTimeoutError } from '../../lib/index.js';
import type { LockStore } from '../../lib/core/port/lock-store.js';
import { DEFAULT_INSTANCE, storeToken } from '../../lib/nest/lock-names.js';
import { startRedis } from '../support/redis-server.js';
import { Gate, startAlone, until } from './application.js';
import { forAll } from '../support/started.js';

@Injectable()
class OrderService {
  readonly gate = new Gate();
  working = false;

  constructor(readonly locks: LockService) {}

  @Locked('order:<0>')
  async pay(_id: string): Promise<void> {
    this.working = true;
    await this.gate.opened;
  }

  @Locked('order:<0>', { waitMs: 100 })
  async ship(_id: string): Promise<void> {}
}

const redis = forAll(startRedis);

async function start(options = { redis: redis.url }) {
  const app = await startAlone({ imports: [LockModule.forRoot(options)], providers: [OrderService] });
  const inspect = jest.spyOn(app.get<LockStore>(storeToken(DEFAULT_INSTANCE)), 'inspect');
  return { orders: app.get(OrderService), inspect };
}

describe('A locked method that waited in vain', () => {
  it('says which method of which process holds the lock, since when, and who called', async () => {
    const [{ orders }, other] = await Promise.all([start(), start()]);
    const since = Date.now();
    const paying = orders.pay('1');
    await until(() => orders.working);
    const latest = Date.now();
    async function shipTheOrder(): Promise<void> {
      await other.orders.ship('1');
    }
    const error: unknown = await shipTheOrder().catch((reason: unknown) => reason);
    orders.gate.release();
    await paying;
    if (!(error instanceof LockTimeoutError)) throw new Error(`expected a LockTimeoutError, got ${String(error)}`);
    expect(error.holders).toMatchObject([{ label: 'OrderService.pay', pid: process.pid, isHere: false }]);
    // The fence is the time of the server, of which the whole milliseconds are told.
    expect(Number(error.holders[0]?.since)).toBeGreaterThanOrEqual(since);
    expect(Number(error.holders[0]?.since)).toBeLessThanOrEqual(latest);
    expect(error.message).toContain(`Held by OrderService.pay in ${hostname().replace(/[^A-Za-z0-9-]/g, '-').slice(-16)}, pid ${process.pid} since 20`);
    expect(error.stack).toMatch(/at (async )?shipTheOrder /);
  });
});
