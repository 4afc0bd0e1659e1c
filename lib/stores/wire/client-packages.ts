/**
 * Loads the packages of Redis clients, if they are installed. Each import stands inside a `try`, by which bundlers see that the package
 * may be missing; in the CommonJS build it is a `require` (scripts/build.mjs).
 */
import type { IoredisPackage } from './ioredis/ioredis-connections.js';
import type { CreateClient, NodeRedisPackage } from './node-redis/node-redis-client.js';

/** Resolves with undefined when the package is not installed. */
export async function loadIoredis(): Promise<IoredisPackage | undefined> {
  try {
    return await import('ioredis');
  } catch (error) {
    return unlessMissing(error);
  }
}

/** Resolves with what makes clients of node-redis, or undefined when the package is not installed. */
export async function loadNodeRedis(): Promise<CreateClient | undefined> {
  try {
    return copying((await import('redis')) as object as NodeRedisPackage);
  } catch (error) {
    return unlessMissing(error);
  }
}

/** createClient makes a class with all commands each time that it is called, which takes 30 ms; a copy of a client takes none of that. */
export function copying({ createClient }: NodeRedisPackage): CreateClient {
  const first = createClient({});
  return (options) => first.duplicate(options);
}

/** @throws the error of a package that is there and cannot be loaded */
function unlessMissing(error: unknown): undefined {
  const { code } = error as { code?: unknown };
  if (code !== 'MODULE_NOT_FOUND' && code !== 'ERR_MODULE_NOT_FOUND') throw error;
  return undefined;
}
