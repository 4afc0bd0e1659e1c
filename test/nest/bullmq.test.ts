/** Processors of BullMQ under the matrix of handlers, with their locks on the same Redis as their jobs. */
import { describe } from '@jest/globals';
import { LockModule } from '../../lib/index.js';
import { startRedis } from '../support/redis-server.js';
import { bullmqProcessor } from './matrix/bullmq-kind.js';
import { handlerPromises } from './matrix/handler-promises.js';
import { forAll } from '../support/started.js';

const redis = forAll(startRedis);

describe('a BullMQ processor', () => {
  handlerPromises(bullmqProcessor(() => redis), () => LockModule.forRoot({ redis: redis.url }));
});
