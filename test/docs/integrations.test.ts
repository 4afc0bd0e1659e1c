import { afterEach, describe, expect, it } from '@jest/globals';
import { BullModule, getQueueToken, Processor, WorkerHost } from '@nestjs/bullmq';
import type { INestApplication, Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import type { Job, Queue } from 'bullmq';
import { LockModule, LockService } from '../../lib/index.js';
import { eventually } from '../support/eventually.js';
import { startRedis } from '../support/redis-server.js';
import { PaymentJobs, Payments } from './delayed-jobs.js';
import { forAll } from '../support/started.js';

/** The same without a catch, to see what it is there for. */
@Processor('payments')
class CarelessJobs extends WorkerHost {
  constructor(private readonly payments: Payments) {
    super();
  }

  override process(job: Job<{ orderId: string }>): Promise<void> {
    return this.payments.pay(job.data.orderId);
  }
}

const redis = forAll(startRedis);

const running: INestApplication[] = [];
afterEach(() => Promise.all(running.splice(0).map((app) => app.close())));

async function instance(...jobs: Type[]): Promise<INestApplication> {
  const connection = { host: '127.0.0.1', port: redis.port };
  const imports = [LockModule.forRoot({ redis: redis.url }), BullModule.forRoot({ connection }), BullModule.registerQueue({ name: 'payments' })];
  const built = await Test.createTestingModule({ imports, providers: [Payments, ...jobs] }).compile();
  const app = built.createNestApplication({ logger: false });
  running.push(app);
  return app.init();
}

/** A job whose lock is busy, on an instance that is stopped while the job waits. */
async function stoppedWhileItsJobWaits(jobs: Type) {
  const other = await instance();
  const lease = await other.get(LockService).acquire('order:7');
  const worker = await instance(jobs);
  const queue = other.get<Queue>(getQueueToken('payments'));
  const job = await queue.add('pay', { orderId: '7' });
  await eventually(async () => expect((await other.get(LockService).inspect('order:7')).waiters).toHaveLength(1));
  await worker.close();
  const stateOf = async () => ({ state: await job.getState(), attempts: (await queue.getJob(job.id!))?.attemptsMade });
  return { lease, job, stateOf };
}

describe('A BullMQ job that waits for its lock when its instance is stopped', () => {
  it('goes back to the queue as the docs show it, and is done by another instance', async () => {
    const { lease, job, stateOf } = await stoppedWhileItsJobWaits(PaymentJobs);
    expect(await stateOf()).toEqual({ state: 'delayed', attempts: 0 });
    await lease.release();
    const next = await instance(PaymentJobs);
    await eventually(async () => expect(await stateOf()).toEqual({ state: 'completed', attempts: 1 }));
    expect(next.get(Payments).paid).toEqual([job.data.orderId]);
  });

  it('has failed when its processor passes the error on', async () => {
    const { lease, stateOf } = await stoppedWhileItsJobWaits(CarelessJobs);
    expect(await stateOf()).toEqual({ state: 'failed', attempts: 1 });
    await lease.release();
  });
});
