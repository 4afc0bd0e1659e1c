/** Chooses the package by which a target is reached. A package is loaded only when it is used, because only one may be installed. */
import { LockUsageError } from '../../core/port/errors.js';
import type { Connect } from './connections.js';
import { loadIoredis, loadNodeRedis } from './client-packages.js';
import { byIoredis, isIoredis } from './ioredis/ioredis-connections.js';
import { byNodeRedis } from './node-redis/node-redis-connections.js';
import { isNodeRedis, targetOf, targetOfClient } from './node-redis/node-redis-target.js';
import type { ClientPackage, ExistingClient, RedisTarget } from './redis-target.js';

/**
 * A client that is given decides itself. A URL and options are reached by `wanted`, or else by ioredis when it is installed, or else
 * by node-redis. Rejects with LockUsageError.
 */
export async function connectTo(target: RedisTarget, wanted?: ClientPackage): Promise<Connect> {
  if (isIoredis(target)) return byIoredis(target);
  if (isNodeRedis(target)) return byNodeRedis(targetOfClient(target, await loadNodeRedis()));
  if (isClient(target)) throw new LockUsageError('Lock options: redis is a client that locks cannot use.');
  const ioredis = wanted === 'redis' ? undefined : await loadIoredis();
  if (ioredis !== undefined) return byIoredis(target, ioredis);
  const create = wanted === 'ioredis' ? undefined : await loadNodeRedis();
  if (create === undefined) throw notInstalled(wanted);
  return byNodeRedis(targetOf(target, create));
}

function isClient(target: RedisTarget): target is ExistingClient {
  return typeof target === 'object' && 'sendCommand' in target;
}

function notInstalled(wanted: ClientPackage | undefined): LockUsageError {
  if (wanted !== undefined) return new LockUsageError(`Lock options: client is '${wanted}', but the package '${wanted}' is not installed. Install it, or leave the option out.`);
  return new LockUsageError("Lock options: locks on Redis need a client, and neither ioredis nor redis (node-redis) is installed. Install one: npm install ioredis, or npm install redis.");
}
