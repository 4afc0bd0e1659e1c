/** Processors of BullMQ queues, on a Redis of the test's own. */
import { BullModule, getQueueToken, Processor, WorkerHost } from '@nestjs/bullmq';
import { Inject } from '@nestjs/common';
import { QueueEvents, type Job, type Queue } from 'bullmq';
import type { RedisServer } from '../../support/redis-server.js';
import { ForClerks, type Kind, type Work } from './variants.js';

/** So many jobs of a queue run at a time, as far as BullMQ is concerned. */
const CONCURRENCY = 4;

export function bullmqProcessor(redis: () => RedisServer): Kind {
  const connection = () => ({ host: '127.0.0.1', port: redis().port });
  return {
    name: 'a BullMQ processor',
    lifetimes: ['singleton', 'request', 'transient'],
    // BullMQ would keep an Observable as the result of the job and not subscribe to it.
    returns: { promise: 'has no caller' },
    guarded: false,
    placeholder: '<0.data.id>',
    method: 'process',
    handler: ({ name, scope, above, below, work }) => {
      @Processor({ name, scope }, { concurrency: CONCURRENCY })
      class Jobs extends WorkerHost {
        constructor(@Inject(work) private readonly work: Work) {
          super();
        }

        @above
        @ForClerks()
        @below
        override process(job: Job<{ id: string }>): Promise<unknown> {
          return this.work.run(job.data.id) as Promise<unknown>;
        }
      }
      return Jobs;
    },
    modules: (variants, handlers) => ({
      imports: [
        BullModule.forRootAsync({ useFactory: () => ({ connection: connection() }) }),
        BullModule.registerQueue(...variants.map(({ name }) => ({ name }))),
      ],
      providers: handlers,
    }),
    start: async (app) => {
      await app.init();
      const events = new Map<string, QueueEvents>();
      const eventsOf = (name: string): QueueEvents => {
        const known = events.get(name) ?? new QueueEvents(name, { connection: connection() });
        events.set(name, known);
        return known;
      };
      const done = async (name: string, id: string): Promise<unknown> => {
        await eventsOf(name).waitUntilReady();
        const job = await app.get<Queue>(getQueueToken(name)).add('job', { id });
        return job.waitUntilFinished(eventsOf(name)).catch((error: Error) => ({ error: error.message }));
      };
      return {
        call: ({ name }, id) => ({ answer: done(name, id) }),
        close: async () => void (await Promise.all([...events.values()].map((each) => each.close()))),
      };
    },
  };
}
