/** Applications on a Redis: what a refused boot leaves there, what a boot refuses, and what a wait in vain is told. */
import { hostname } from 'node:os';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Injectable, Logger, type ModuleMetadata } from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import { Leader, type Lease, Locked, LockModule, type LockModuleOptions, LockService, LockTimeoutError } from '../../lib/index.js';
import { eventually } from '../support/eventually.js';
import { freePort } from '../support/free-port.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { Gate, startAlone, until } from './application.js';

const redis = forAll(startRedis);
afterEach(() => void jest.restoreAllMocks());

describe('locks on Redis', () => {
  class Slow {
    @Locked('slow', { leaseMs: 120_000 })
    async run(): Promise<void> {}
  }
  class Astray {
    @Leader('indexer', { instance: 'routed' })
    async lead(_term: Lease): Promise<void> {}
  }
  const routed = () => LockModule.forRoot({ name: 'routed', route: () => 'nowhere' });
  const unreachable = async () => LockModule.forRoot({ name: 'away', redis: `redis://127.0.0.1:${await freePort()}`, bootTimeoutMs: 300 });
  /** Gives its options when the other module has opened its connections. */
  const late = () => LockModule.forRootAsync({ name: 'late', inject: [LockService], useFactory: () => undefined as never });

  it.each<[string, RegExp, () => Promise<ModuleMetadata>]>([
    ['a decorator', /^Slow\.run: /, async () => ({ providers: [Slow] })],
    ['the Redis of another module, which cannot be reached', /could not be reached within 300 ms/, async () => ({ imports: [await unreachable()] })],
    ['the factory of another module, which gives nothing', /^LockModule options: /, async () => ({ imports: [late()] })],
    ['the route of a role, which leads nowhere', /leads to a lock module 'nowhere' that does not exist/, async () => ({ imports: [routed()], providers: [Astray] })],
  ])('leave no connection open when the boot is refused by %s', async (_what, why, metadata) => {
    const connections = async (): Promise<number> => String(await redis.command('CLIENT', 'LIST')).trim().split('\n').length;
    const before = await connections();
    const { imports = [], ...rest } = await metadata();
    await expect(startAlone({ ...rest, imports: [LockModule.forRoot({ redis: redis.url }), ...imports] })).rejects.toThrow(why);
    await eventually(async () => expect(await connections()).toBe(before));
  });

  it('leave no connection open that was made after another module had refused the boot', async () => {
    const connections = async (): Promise<number> => String(await redis.command('CLIENT', 'LIST')).trim().split('\n').length;
    const before = await connections();
    let giveOptions: (options: LockModuleOptions) => void = () => undefined;
    const given = new Promise<LockModuleOptions>((resolve) => (giveOptions = resolve));
    const opening = LockModule.forRootAsync({ useFactory: () => given });
    const empty = LockModule.forRootAsync({ name: 'empty', useFactory: () => undefined as never });
    await expect(startAlone({ imports: [opening, empty] })).rejects.toThrow('LockModule options: ');
    const open = jest.spyOn(LockService.prototype, 'open');
    giveOptions({ redis: redis.url });
    await eventually(async () => expect(open).toHaveBeenCalled());
    await open.mock.results[0]?.value;
    await eventually(async () => expect(await connections()).toBe(before));
  });

  it('go on when a lock module that is loaded later cannot boot', async () => {
    const app = await startAlone({ imports: [LockModule.forRoot({ redis: redis.url })] });
    const away = await unreachable();
    await expect(app.get(LazyModuleLoader).load(() => away)).rejects.toThrow('could not be reached');
    expect(await app.get(LockService).withLock('k', () => 'done')).toBe('done');
  });
});

describe('the boot', () => {
  it('on a server that may evict locks logs an error, and fails with strictServer', async () => {
    await using evicting = await startRedis({ args: ['--maxmemory', '50mb', '--maxmemory-policy', 'allkeys-lru'] });
    const error = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    const app = await startAlone({ imports: [LockModule.forRoot({ redis: evicting.url })] });
    expect(error.mock.calls.flat().filter((line) => String(line).includes('allkeys-lru'))).toHaveLength(1);
    await app.close();
    await expect(startAlone({ imports: [LockModule.forRoot({ redis: evicting.url, strictServer: true })] })).rejects.toThrow(/allkeys-lru/);
  });
});

@Injectable()
class OrderService {
  readonly gate = new Gate();
  working = false;

  @Locked('order:<0>')
  async pay(_id: string): Promise<void> {
    this.working = true;
    await this.gate.opened;
  }

  @Locked('order:<0>', { waitMs: 100 })
  async ship(_id: string): Promise<void> {}
}

describe('A locked method that waited in vain', () => {
  it('says which method of which process holds the lock, since when, and who called', async () => {
    const startOrders = async () => (await startAlone({ imports: [LockModule.forRoot({ redis: redis.url })], providers: [OrderService] })).get(OrderService);
    const [orders, ofOther] = await Promise.all([startOrders(), startOrders()]);
    const since = Date.now();
    const paying = orders.pay('1');
    await until(() => orders.working);
    const latest = Date.now();
    async function shipTheOrder(): Promise<void> {
      await ofOther.ship('1');
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
