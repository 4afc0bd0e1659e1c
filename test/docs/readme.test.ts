import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { LockService } from '../../lib/lock.service.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';

/** The code of the README stands in these files, so that it is compiled with the tests and run below. */
const FILES = ['first-lock', 'configuration', 'testing-your-application'];

describe('The README', () => {
  let redis: RedisServer;

  beforeAll(async () => {
    redis = await startRedis();
    process.env['REDIS_URL'] = redis.url;
  });

  afterAll(async () => {
    delete process.env['REDIS_URL'];
    await redis.stop();
  });

  it('shows the code that is compiled and run here, and no other', () => {
    const shown = [...readFileSync('README.md', 'utf8').matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code);
    expect(shown).toEqual(FILES.map((name) => readFileSync(`test/docs/${name}.ts`, 'utf8')));
  });

  it('begins with a lock that works', async () => {
    const { AppModule, OrderService } = await import('./first-lock.js');
    const module = await Test.createTestingModule({ imports: [AppModule] }).compile();
    await module.init();
    const [one, two] = await Promise.all([1, 2].map(() => module.get(OrderService).pay('7')));
    const fenceIn = (text: string | undefined): number => Number(/^order 7 paid under fence (\d+)$/.exec(text ?? '')?.[1]);
    expect(fenceIn(two)).toBeGreaterThan(fenceIn(one));
    await module.close();
  });

  it.each(['byConfigService', 'byNamespace'] as const)('configures the module %s', async (name) => {
    const configured = (await import('./configuration.js'))[name];
    class App {}
    Module({ imports: [configured] })(App);
    const module = await Test.createTestingModule({ imports: [App] }).compile();
    const locks = module.get(LockService);
    await locks.withLock('k', async (lease) => expect(lease.remainingMs).toBeGreaterThan(name === 'byNamespace' ? 10_000 : 20_000));
    await module.close();
  });

  it('tests an application without Redis', async () => {
    const { busyOrderIsRefused } = await import('./testing-your-application.js');
    await busyOrderIsRefused();
  });

  it('links to files that are there', () => {
    const missing = [...readFileSync('README.md', 'utf8').matchAll(/\]\(([^)#]+\.md)/g)].map(([, file]) => file!).filter((file) => {
      try {
        return !readFileSync(file, 'utf8');
      } catch {
        return true;
      }
    });
    expect(missing).toEqual([]);
  });
});
