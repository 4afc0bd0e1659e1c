/** The servers that a command line names, as a store takes them. */
import { readFile } from 'node:fs/promises';
import { type RedisTarget, type ServerOptions, serverOfUrl } from '../stores/wire/redis-target.js';
import { UsageError, type Target } from './arguments.js';

/** One target for each master of a Redlock, or one. Rejects with UsageError when a file of certificates cannot be read. */
export async function serversOf(target: Target): Promise<readonly RedisTarget[]> {
  const { urls, cluster, sentinel } = target;
  const tls = await tlsOf(target);
  const servers = urls.map((url) => withLogin(serverOfUrl(url), target, tls));
  const [first] = servers as [ServerOptions];
  const { host: _, port: __, db, ...login } = first;
  if (cluster) return [{ cluster: servers.map(addressOf), options: { redisOptions: login } }];
  if (sentinel !== undefined) return [behindSentinels(servers, sentinel, { ...login, db }, target.sentinelPassword)];
  return servers;
}

/** What stands in a URL comes before what was given for all servers. */
function withLogin(server: ServerOptions, { username, password }: Target, tls: object | undefined): ServerOptions {
  return { ...server, username: server.username ?? username, password: server.password ?? password, tls: server.tls === undefined ? tls : (tls ?? server.tls) };
}

function behindSentinels(
  servers: readonly ServerOptions[], name: string, { tls, ...login }: ServerOptions, sentinelPassword: string | undefined,
): ServerOptions {
  return { ...login, name, sentinels: servers.map(addressOf), sentinelPassword, tls, sentinelTLS: tls, enableTLSForSentinelMode: tls !== undefined };
}

function addressOf({ host, port }: ServerOptions): { host?: string | undefined; port?: number | undefined } {
  return { host, port };
}

async function tlsOf({ tls, cacert }: Target): Promise<object | undefined> {
  if (cacert === undefined) return tls ? {} : undefined;
  try {
    return { ca: await readFile(cacert) };
  } catch (error) {
    throw new UsageError(`--cacert: ${(error as Error).message}`);
  }
}
