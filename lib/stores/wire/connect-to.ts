/** Chooses the package by which a target is reached. A package is loaded only when it is used, because only one may be installed. */
import { LockUsageError } from '../../core/port/errors.js';
import type { Connect } from './connections.js';
import { byIoredis, isIoredis, type IoredisPackage } from './ioredis.js';
import { byGivenNodeRedis, byNodeRedis, copying, isNodeRedis, type CreateClient, type NodeRedisPackage } from './node-redis.js';
import { type ClientPackage, type ExistingClient, notLoaded, type RedisTarget } from './redis-target.js';

/**
 * A client that is given decides itself. A URL and options are reached by `wanted`, or else by ioredis when it is installed, or else
 * by node-redis. Rejects with LockUsageError.
 */
export async function connectTo(target: RedisTarget, wanted?: ClientPackage): Promise<Connect> {
  if (isIoredis(target)) return byIoredis(target, await loadIoredis());
  if (isNodeRedis(target)) return byGivenNodeRedis(target, await loadNodeRedis());
  const ioredis = wanted === 'redis' ? undefined : await loadIoredis();
  if (ioredis !== undefined) return byIoredis(target, ioredis);
  const create = wanted === 'ioredis' ? undefined : await loadNodeRedis();
  if (create !== undefined) return byNodeRedis(target as Exclude<RedisTarget, ExistingClient>, create);
  if (wanted !== undefined) throw notLoaded(`client is '${wanted}'`, wanted);
  throw new LockUsageError('Lock options: locks on Redis need a client, and neither ioredis nor redis (node-redis) is installed. Install one: npm install ioredis, or npm install redis.');
}

// Each import stands inside a `try`, by which bundlers see that the package may be missing; in the CommonJS build it is a `require`
// (scripts/build.mjs).

/** Resolves with undefined when the package is not installed. */
async function loadIoredis(): Promise<IoredisPackage | undefined> {
  try {
    return await import('ioredis');
  } catch (error) {
    return unlessMissing(error);
  }
}

/** Resolves with what makes clients of node-redis, or undefined when the package is not installed. */
async function loadNodeRedis(): Promise<CreateClient | undefined> {
  try {
    return copying((await import('redis')) as object as NodeRedisPackage);
  } catch (error) {
    return unlessMissing(error);
  }
}

/** @throws the error of a package that is there and cannot be loaded */
function unlessMissing(error: unknown): undefined {
  const { code } = error as { code?: unknown };
  if (code !== 'MODULE_NOT_FOUND' && code !== 'ERR_MODULE_NOT_FOUND') throw error;
  return undefined;
}
