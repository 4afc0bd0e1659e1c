/** By which package of clients the stores of tests reach their servers: HOLDFAST_TEST_CLIENT is `ioredis` (the default) or `redis`. */
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import type { Connect } from '../../lib/stores/wire/connections.js';
import { byIoredis, isIoredis } from '../../lib/stores/wire/ioredis.js';
import { byNodeRedis, copying, type NodeRedisPackage } from '../../lib/stores/wire/node-redis.js';
import type { ClientPackage, ClusterTarget, RedisTarget, ServerOptions } from '../../lib/stores/wire/redis-target.js';

export const TEST_CLIENT: ClientPackage = process.env['HOLDFAST_TEST_CLIENT'] === 'redis' ? 'redis' : 'ioredis';

const create = copying({ createClient } as unknown as NodeRedisPackage);

export function connectBy(target: RedisTarget, client: ClientPackage = TEST_CLIENT): Connect {
  if (client === 'ioredis' || isIoredis(target)) return byIoredis(target, { Redis });
  return byNodeRedis(target as string | ServerOptions | ClusterTarget, create);
}
