/** How the stores of tests reach their servers. */
import type { Connect } from '../../lib/stores/wire/connections.js';
import { byIoredis, type RedisTarget } from '../../lib/stores/wire/ioredis/ioredis-connections.js';

export function connectBy(target: RedisTarget): Connect {
  return byIoredis(target);
}
