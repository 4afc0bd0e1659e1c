/** The worker of docs/handing-off.md, whose jobs BullMQ tries again: the next attempt goes on under the lock of the one before. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { Queue, Worker, type Job } from 'bullmq';
import { LockModule, LockService, type Lease } from '../../lib/index.js';
import { Payments } from '../docs/examples/handing-off.js';
import { eventually } from '../support/eventually.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { startWorker } from '../support/worker.js';

const closing: (() => Promise<unknown>)[] = [];
const redis = forAll(startRedis);
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  await redis.client().flushall();
});

interface Told {
  readonly attempt: number;
  readonly error?: Error;
}

/** An application whose queue has jobs that are tried up to three times, at once. */
async function shop(client: 'ioredis' | 'redis', pay: (id: string, fence: number) => Promise<void>) {
  const connection = { host: '127.0.0.1', port: redis.port };
  const queue = new Queue(`pay-${client}`, { connection });
  closing.push(() => queue.close());
  const app = await Test.createTestingModule({ imports: [LockModule.forRoot({ redis: redis.url, client })] }).compile();
  await app.init();
  closing.push(() => app.close());
  const locks = app.get(LockService);
  const add = (name: string, data: object, options: object): Promise<unknown> => queue.add(name, data, { ...options, backoff: 1 });
  const payments = new Payments(locks, { check: async () => undefined, pay }, { add });
  const told: Told[] = [];
  const work = (): void => {
    const process = async (job: Job): Promise<void> => {
      const attempt = told.length + 1;
      try {
        await payments.process(job);
        told.push({ attempt });
      } catch (error) {
        told.push({ attempt, error: error as Error });
        throw error;
      }
    };
    const worker = new Worker(queue.name, process, { connection, stalledInterval: 100, maxStalledCount: 5 });
    worker.on('error', () => undefined);
    closing.push(() => worker.close(true));
  };
  return { locks, payments, queue, told, work };
}

describe.each(['ioredis', 'redis'] as const)('a job with attempts, over %s', (client) => {
  it('is done at the second attempt when the provider fails once, under one unbroken hold', async () => {
    const fences: number[] = [];
    const shopOf = await shop(client, async (_id, fence) => {
      fences.push(fence);
      if (fences.length === 1) throw new Error('the provider failed');
    });
    const { locks, payments, told, work } = shopOf;
    await payments.request('7');
    const others: Lease[] = [];
    const waiting = locks.acquire('order:7', { waitMs: Infinity }).then((lease) => others.push(lease));
    await eventually(async () => expect((await locks.inspect('order:7')).waiters).toHaveLength(1));
    work();
    await eventually(() => expect(told).toHaveLength(2));
    expect(told).toEqual([{ attempt: 1, error: new Error('the provider failed') }, { attempt: 2 }]);
    await waiting;
    // A hold in between would have had a fence between those of the two attempts, and the waiter would have been first.
    expect(others[0]!.fence).toBeGreaterThan(fences[1]!);
    expect(fences[1]).toBeGreaterThan(fences[0]!);
    await others[0]!.release();
  });

  it('is done by another process when the one that handed the hold back dies', async () => {
    const { payments, told, work, queue } = await shop(client, async () => undefined);
    await payments.request('7');
    await dies(client, queue.name, 'after');
    work();
    await eventually(() => expect(told).toHaveLength(1));
    expect(told).toEqual([{ attempt: 1 }]);
  });

  it('is told that its ticket was used when a worker dies under the hold, and the lock is free after its lease', async () => {
    const { locks, payments, told, work, queue } = await shop(client, async () => undefined);
    await payments.request('7');
    await dies(client, queue.name, 'while');
    work();
    await eventually(() => expect(told).not.toHaveLength(0));
    expect(told[0]!.error).toMatchObject({ code: 'LOCK_LOST', reason: 'ticket-used' });
    await (await locks.acquire('order:7')).release();
  });
});

/** Lets a process of its own take the job and die. */
async function dies(client: 'ioredis' | 'redis', queue: string, when: 'while' | 'after'): Promise<void> {
  const worker = await startWorker({ redis: redis.url, client });
  const { exited } = worker;
  await worker.ask('job', { queue, port: redis.port, dies: when }).catch(() => undefined);
  expect((await exited).signal).toBe('SIGKILL');
}
