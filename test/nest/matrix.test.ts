/** Kinds of handlers × scopes × orders of decorators × what they return, each kind in an application of its own. */
import { describe } from '@jest/globals';
import { LockModule } from '../../lib/index.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { bullmqProcessor } from './matrix/bullmq-kind.js';
import { handlerPromises } from './matrix/handler-promises.js';
import { cronJob, eventListener, intervalJob } from './matrix/job-kinds.js';
import { messageHandler, webSocketGateway } from './matrix/message-kinds.js';
import { graphqlResolver, httpController, sseController } from './matrix/request-kinds.js';

const redis = forAll(startRedis);
const kinds = [httpController, sseController, graphqlResolver, webSocketGateway, messageHandler, cronJob, intervalJob, eventListener];

describe.each(kinds.map((kind) => [kind.name, kind] as const))('%s', (_name, kind) => {
  handlerPromises(kind, () => LockModule.forRoot({ embedded: true }));
});

describe('a BullMQ processor, with its locks on the same Redis as its jobs', () => {
  handlerPromises(bullmqProcessor(() => redis), () => LockModule.forRoot({ redis: redis.url }));
});
