import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Logger, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import request from 'supertest';
import { LockModule, LockService } from '../../lib/index.js';
import { TestLocks } from '../../lib/testing/index.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';

describe('The README', () => {
  afterAll(async () => {
    delete process.env['REDIS_URL'];
  });
  const redis = forAll(startRedis);
  beforeAll(async () => {
    process.env['REDIS_URL'] = redis.url;
    Logger.overrideLogger(false);
  });

  it('begins with an application whose locked route answers', async () => {
    const { bootstrap } = await import('./first-lock.js');
    process.env['PORT'] = '0';
    const app = await bootstrap();
    await request(app.getHttpServer()).post('/orders/7/payment').expect(201, 'order 7 is paid');
    await app.close();
    delete process.env['PORT'];
  });

  it('says with what a busy lock is answered', async () => {
    const { AppModule } = await import('./first-lock.js');
    const locks = new TestLocks();
    const module = await locks.replaceIn(Test.createTestingModule({ imports: [AppModule] })).compile();
    const app = await module.createNestApplication({ logger: false }).init();
    await locks.busy('order:7');
    await request(app.getHttpServer()).post('/orders/7/payment').expect(423).expect('retry-after', '1');
    await app.close();
  });

  it('shows how work gets its fence and its signal', async () => {
    const { ShipmentService } = await import('./fence-and-signal.js');
    const imports = [LockModule.forRoot({ redis: process.env['REDIS_URL'] })];
    const module = await Test.createTestingModule({ imports, providers: [ShipmentService] }).compile();
    await module.init();
    const fences = await Promise.all([1, 2].map(async () => Number(/^order 7 shipped under fence (\d+)$/.exec(await module.get(ShipmentService).ship('7'))?.[1])));
    expect(fences[1]).toBeGreaterThan(fences[0]!);
    await module.close();
  });

  it.each(['byConfigService', 'byNamespace'] as const)('configures the module %s', async (name) => {
    const { [name]: configured } = await import('./configuration.js');
    class App {}
    Module({ imports: [configured] })(App);
    const module = await Test.createTestingModule({ imports: [App] }).compile();
    const locks = module.get(LockService);
    await locks.withLock('k', async (lease) => expect(lease.remainingMs).toBeGreaterThan(name === 'byNamespace' ? 10_000 : 20_000));
    await module.close();
  });
});
