/** Processors of BullMQ under the matrix of handlers, with their locks on the same Redis as their jobs. */
import { afterAll, beforeAll, describe } from '@jest/globals';
import { LockModule } from '../../lib/index.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { bullmqProcessor } from './matrix/bullmq-kind.js';
import { handlerPromises } from './matrix/handler-promises.js';

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

describe('a BullMQ processor', () => {
  handlerPromises(bullmqProcessor(() => redis), () => LockModule.forRoot({ redis: redis.url }));
});
