/** What other parts of the application may wait for in their own hooks, while Nest has not called those of the lock module yet. */
import { once } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { type BeforeApplicationShutdown, Controller, type DynamicModule, Get, Inject, Injectable, Module, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import { Leader, type Lease, LockClosedError, Locked, LockModule, LockService } from '../../lib/index.js';
import { Gate, startAlone, startApp, until } from './application.js';

/** Resolves when the signal of the lease aborts. */
function aborted({ signal }: Lease): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

/** A lock module whose grace is over soon. */
const quick = () => LockModule.forRoot({ embedded: true, shutdownGraceMs: 50 });

describe('A hook that runs when the application shuts down', () => {
  it('may wait for the end of a term: the signal has aborted before', async () => {
    @Injectable()
    class Indexer implements OnModuleDestroy {
      readonly done: string[] = [];
      private began!: () => void;
      readonly begun = new Promise<void>((resolve) => (this.began = resolve));
      private loop: Promise<unknown> | undefined;

      @Leader('indexer')
      async index(term: Lease): Promise<void> {
        this.loop = aborted(term).then(() => this.done.push('stopped'));
        this.began();
        await this.loop;
      }

      async onModuleDestroy(): Promise<void> {
        await this.loop;
        this.done.push('closed');
      }
    }
    const app = await startApp({ providers: [Indexer] });
    const indexer = app.get(Indexer);
    await indexer.begun;
    await app.close();
    expect(indexer.done).toEqual(['stopped', 'closed']);
  });

  it('may wait for a job that waits for a lock: the wait ends with the grace', async () => {
    @Injectable()
    class Worker implements OnModuleDestroy {
      private job: Promise<unknown> | undefined;

      constructor(@Inject(LockService) private readonly locks: LockService) {}

      async work(): Promise<void> {
        await this.locks.acquire('k');
        this.job = this.locks.withLock('k', { waitMs: Infinity }, () => 'done').catch((error: unknown) => error);
      }

      async onModuleDestroy(): Promise<void> {
        expect(await this.job).toBeInstanceOf(LockClosedError);
        ended.push('worker');
      }
    }
    const ended: string[] = [];
    @Module({ providers: [Worker], exports: [Worker] })
    class Jobs {}
    const app = await startApp({ imports: [Jobs] }, quick());
    await app.get(Worker, { strict: false }).work();
    await app.close();
    expect(ended).toEqual(['worker']);
  });

  it.each([
    ['of a module with a store', {}, false],
    ['of one with a route beside it', { route: () => 'default' }, false],
    ['though a module was loaded lazily before', {}, true],
  ])('may wait for work that ends when its signal aborts: the grace has begun before (%s)', async (_what, options, lazily) => {
    @Module({})
    class Late {}

    @Injectable()
    class Reports implements OnModuleInit, OnModuleDestroy {
      report: Promise<unknown> | undefined;

      constructor(@Inject(LockService) private readonly locks: LockService, @Inject(LazyModuleLoader) private readonly loader: LazyModuleLoader) {}

      async onModuleInit(): Promise<void> {
        if (lazily) await this.loader.load(() => Late);
        this.report = this.locks.withLock('report', { onLost: 'ignore' }, aborted);
      }

      async onModuleDestroy(): Promise<void> {
        await this.report;
      }
    }
    const app = await startApp({ providers: [Reports] }, LockModule.forRoot({ embedded: true, shutdownGraceMs: 50, ...options }));
    await app.close();
    await expect(app.get(Reports).report).resolves.toBeUndefined();
  });

  it('may lock after the grace, and also when there is none', async () => {
    @Injectable()
    class Worker implements OnModuleDestroy {
      done = 0;

      constructor(@Inject(LockService) private readonly locks: LockService) {}

      async onModuleDestroy(): Promise<void> {
        await new Promise((resolve) => setTimeout(resolve, 20));
        await this.locks.withLock('flush', () => (this.done += 1));
      }
    }
    const app = await startApp({ providers: [Worker] }, LockModule.forRoot({ embedded: true, shutdownGraceMs: 0 }));
    const worker = app.get(Worker);
    await app.close();
    expect(worker.done).toBe(1);
  });

  it.each([{}, { route: () => 'default' }])('before the connections are closed, after those of modules, gets no lock any more: %p', async (options) => {
    @Injectable()
    class Late implements BeforeApplicationShutdown {
      refused: unknown;

      constructor(@Inject(LockService) private readonly locks: LockService) {}

      async beforeApplicationShutdown(): Promise<void> {
        this.refused = await this.locks.acquire('late').catch((error: unknown) => error);
      }
    }
    const app = await startApp({ providers: [Late] }, LockModule.forRoot({ embedded: true, ...options }));
    await app.close();
    expect(app.get(Late).refused).toBeInstanceOf(LockClosedError);
  });
});

it.each([0, 1])('a job that nobody else waits for ends after the modules that are not global, and before global ones, lock module at %d of the imports', async (at) => {
  const order: string[] = [];
  const hook = (name: string) => ({ provide: name, useValue: { onApplicationShutdown: () => void order.push(name) } });
  class Queue {}
  class Database {}
  const imports: DynamicModule[] = [{ module: Database, global: true, providers: [hook('database')] }, { module: Queue, providers: [hook('queue')] }];
  imports.splice(at, 0, LockModule.forRoot({ embedded: true }));
  const app = await startAlone({ imports });
  const [begun, stopped] = [new Gate(), new Gate()];
  const job = app.get(LockService).withLock('draw', async () => {
    begun.release();
    await stopped.opened;
    order.push('job');
  });
  await begun.opened;
  const closed = app.close();
  await until(async () => order.includes('queue'), 'the end of the queue');
  setImmediate(() => stopped.release());
  await Promise.all([closed, job]);
  expect(order).toEqual(['queue', 'job', 'database']);
});

it('a handler that goes on beyond the grace is told while the server still drains, so the application can close', async () => {
  @Controller()
  class Endless {
    constructor(readonly locks: LockService) {}

    @Get('endless')
    @Locked('endless', { onLost: 'ignore' })
    async run(): Promise<string> {
      const signal = this.locks.currentLease()?.signal;
      if (signal) await once(signal, 'abort');
      return 'told';
    }
  }
  const app = await startApp({ controllers: [Endless] }, LockModule.forRoot({ embedded: true, shutdownGraceMs: 50 }));
  await app.listen(0, '127.0.0.1');
  const answer = fetch(`${await app.getUrl()}/endless`).then((response) => response.text());
  await until(() => app.get(LockService).isLocked('endless'), 'the lock');
  await app.close();
  expect(await answer).toBe('told');
});
