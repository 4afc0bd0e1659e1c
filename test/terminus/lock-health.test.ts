/** The health indicator in a real application with @nestjs/terminus. */
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, type DynamicModule, type INestApplication } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { Test } from '@nestjs/testing';
import { LockModule, LockService, LockUsageError } from 'nestjs-holdfast';
import { LockHealthIndicator, type LockHealthOptions } from 'nestjs-holdfast/terminus';
import { TestLocks } from 'nestjs-holdfast/testing';
import request from 'supertest';
import type { LockStore } from '../../lib/core/port/lock-store.js';
import { DEFAULT_INSTANCE, storeToken } from '../../lib/nest/lock-names.js';
import { eventually } from '../support/eventually.js';
import { startRedis } from '../support/redis-server.js';
import { startVoters } from '../support/redlock-store.js';

let options: LockHealthOptions;

@Controller('health')
class HealthController {
  constructor(private readonly health: HealthCheckService, private readonly lockHealth: LockHealthIndicator) {}

  @Get()
  @HealthCheck()
  check() {
    return this.health.check([() => this.lockHealth.pingCheck('locks', options)]);
  }
}

let app: INestApplication | undefined;
const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  await app?.close();
  app = undefined;
  for (const stop of stops.splice(0)) await stop();
});

async function start(...modules: readonly (TestLocks | DynamicModule)[]): Promise<ReturnType<INestApplication['getHttpServer']>> {
  options = {};
  const module = await Test.createTestingModule({
    imports: [TerminusModule.forRoot({ logger: false }), ...modules.map((each) => (each instanceof TestLocks ? each.asModule() : each))],
    controllers: [HealthController],
    providers: [LockHealthIndicator],
  }).compile();
  app = module.createNestApplication({ logger: false });
  await app.init();
  return app.getHttpServer();
}

describe('LockHealthIndicator', () => {
  it('is up with its latency while the store answers', async () => {
    const server = await start(new TestLocks());
    const { status, body } = await request(server).get('/health');
    expect(status).toBe(200);
    expect(body.info.locks).toEqual({ status: 'up', latencyMs: expect.any(Number) });
  });

  it('says of each role that this process stands for whether it leads', async () => {
    const test = new TestLocks();
    const server = await start(test);
    await test.busy('leader:mailer');
    for (const role of ['indexer', 'mailer']) {
      app!.get(LockService).lead(role, (term) => new Promise((resolve) => term.signal.addEventListener('abort', () => resolve())));
    }
    await eventually(async () => {
      const { body } = await request(server).get('/health');
      expect(body.info.locks).toEqual({ status: 'up', latencyMs: expect.any(Number), roles: { indexer: { isLeader: true }, mailer: { isLeader: false } } });
    });
  });

  it('is down with the reason while the store fails, and up again after', async () => {
    const test = new TestLocks();
    const server = await start(test);
    test.storeDown();
    const down = await request(server).get('/health');
    expect(down.status).toBe(503);
    expect(down.body.error.locks).toEqual({ status: 'down', message: expect.stringContaining('down'), latencyMs: expect.any(Number) });
    test.storeBack();
    expect((await request(server).get('/health')).status).toBe(200);
  });

  it('is down when the store stays silent for longer than timeoutMs', async () => {
    const server = await start(new TestLocks());
    const silent = jest.spyOn(app!.get<LockStore>(storeToken(DEFAULT_INSTANCE)), 'tryOut').mockReturnValue(new Promise(() => {}));
    options = { timeoutMs: 20 };
    const { status, body } = await request(server).get('/health');
    expect(status).toBe(503);
    expect(body.error.locks).toMatchObject({ status: 'down', message: expect.stringContaining('20 ms') });
    silent.mockRestore();
  });

  it.each([NaN, 0, -5, 0.5, Infinity, '500' as never])('refuses a timeoutMs of %p, because it takes whole milliseconds from 1', async (timeoutMs) => {
    await start(new TestLocks());
    const pinged = app!.get(LockHealthIndicator).pingCheck('locks', { timeoutMs });
    await expect(pinged).rejects.toThrow(LockUsageError);
    await expect(pinged).rejects.toThrow(/^LockHealthIndicator\.pingCheck\('locks'\): expected timeoutMs to be a whole number from 1 to 3600000, got/);
  });

  it('looks at the named instance and at no other', async () => {
    const billing = new TestLocks({ name: 'billing' });
    const server = await start(new TestLocks(), billing);
    billing.storeDown();
    expect((await request(server).get('/health')).status).toBe(200);
    options = { instance: 'billing' };
    expect((await request(server).get('/health')).status).toBe(503);
  });

  it('asks every store that a route can lead to, and names the one that does not answer', async () => {
    const [eu, us] = [new TestLocks({ name: 'eu' }), new TestLocks({ name: 'us' })];
    const route = (key: string): string => ({ a: 'eu', b: 'us' })[key] ?? 'unknown';
    const server = await start(LockModule.forRoot({ route }), eu, us);
    const up = await request(server).get('/health');
    expect(up.body.info.locks).toEqual({ status: 'up', latencyMs: expect.any(Number) });
    us.storeDown();
    const down = await request(server).get('/health');
    expect(down.status).toBe(503);
    expect(down.body.error.locks).toMatchObject({ status: 'down', message: expect.stringMatching(/^Lock module 'us': .*down/) });
    us.storeBack();
    expect((await request(server).get('/health')).status).toBe(200);
  });

  it.each([
    ['memory is full', ['CONFIG', 'SET', 'maxmemory', 1], ['CONFIG', 'SET', 'maxmemory', 0], 'OOM'],
    ['Redis has become a replica', ['REPLICAOF', '127.0.0.1', 1], ['REPLICAOF', 'NO', 'ONE'], 'READONLY'],
  ] as const)('is down while the store answers questions and refuses writes, because %s', async (_, [fail, ...failing], [heal, ...healing], words) => {
    const redis = await startRedis();
    stops.push(() => redis.stop());
    const server = await start(LockModule.forRoot({ redis: redis.url }));
    expect((await request(server).get('/health')).status).toBe(200);
    await redis.command(fail, ...failing);
    const down = await request(server).get('/health');
    expect(down.status).toBe(503);
    expect(down.body.error.locks).toMatchObject({ status: 'down', message: expect.stringContaining(words) });
    await redis.command(heal, ...healing);
    await eventually(async () => expect((await request(server).get('/health')).status).toBe(200));
    expect(await redis.command('KEYS', '*:[lq]:*')).toEqual([]);
  });

  it('is down while a quorum of the nodes of a Redlock refuses writes, and up while one of three does', async () => {
    const masters = await startVoters(3);
    stops.push(() => masters.stop());
    const server = await start(LockModule.forRoot({ redis: masters.map(({ url }) => url) }));
    await eventually(async () => expect((await request(server).get('/health')).status).toBe(200));
    await masters[0]!.command('CONFIG', 'SET', 'maxmemory', 1);
    expect((await request(server).get('/health')).status).toBe(200);
    await masters[1]!.command('CONFIG', 'SET', 'maxmemory', 1);
    const down = await request(server).get('/health');
    expect(down.body.error.locks).toMatchObject({ status: 'down', message: expect.stringMatching(/no quorum of 3 nodes.*OOM/) });
    for (const master of masters.slice(0, 2)) await master.command('CONFIG', 'SET', 'maxmemory', 0);
    await eventually(async () => expect((await request(server).get('/health')).status).toBe(200));
  });

  it('leaves nothing in the store and is never in the way of a lock', async () => {
    const test = new TestLocks();
    const server = await start(test);
    await request(server).get('/health');
    const found = [];
    for await (const lock of test.locks.list()) found.push(lock);
    expect(found).toEqual([]);
  });

  it('says which lock module is missing', async () => {
    await start(new TestLocks());
    const indicator = app!.get(LockHealthIndicator);
    await expect(indicator.pingCheck('locks', { instance: 'biling' })).rejects.toThrow(LockUsageError);
    await expect(indicator.pingCheck('locks', { instance: 'biling' })).rejects.toThrow("'biling'");
  });

  it('works beside a lock module on the embedded store', async () => {
    const module = await Test.createTestingModule({
      imports: [TerminusModule, LockModule.forRoot({ embedded: true })],
      providers: [LockHealthIndicator],
    }).compile();
    await module.init();
    expect(await module.get(LockHealthIndicator).pingCheck('locks')).toMatchObject({ locks: { status: 'up' } });
    await module.close();
  });
});
