/** Connections by ioredis, made from a URL, options, or a client of the application, which is only copied. */
import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { messageOf } from '../../core/port/errors.js';
import { connectingBy, routeOf, routeToCluster, routeToServer, type Connect, type SourceOf } from './connections.js';
import { type ClusterTarget, notLoaded, type RedisTarget, type ServerOptions } from './redis-target.js';
import type { Client, ClientSpec } from './server-connection.js';

/** What is used of the package. */
export interface IoredisPackage {
  readonly Redis: typeof Redis;
}

/** `ioredis` may be left out for a client of the application that is no Cluster. @throws LockUsageError when it is needed and missing */
export function byIoredis(target: RedisTarget, ioredis?: IoredisPackage): Connect {
  const made: SourceOf = (read, login) => ({
    address: {},
    login,
    make: (how) => clientOf(new ioredis!.Redis(optionsFor(read(), how)), how),
  });
  if (!isIoredis(target)) return connectingBy(routeOf(target as string | ServerOptions | ClusterTarget, made));
  // The options of a given client are read at each connection: an application may set another password in them.
  if (isCluster(target)) {
    if (ioredis === undefined) throw notLoaded('redis is a Cluster client of ioredis', 'ioredis');
    const nodes = { cluster: Reflect.get(target, 'startupNodes') as ClusterTarget['cluster'], options: target.options as object };
    return connectingBy(routeToCluster(nodes, () => (target.options.redisOptions ?? {}), made));
  }
  const copied: SourceOf = (read) => ({ address: {}, make: (how) => clientOf(target.duplicate(optionsFor(read(), how)), how, target) });
  return connectingBy(routeToServer(() => target.options, copied));
}

/** `given`: the client of the application of which this is a copy. */
function clientOf(sender: Redis, how: ClientSpec, given?: Redis): Client {
  sender.on('connect', how.connected).on('error', how.failed).on('close', how.ended);
  return {
    sender,
    async connect() {
      if (given !== undefined && given.connect !== sender.connect) await askedByConnect(given, sender.options);
      await sender.connect();
    },
    subscribe(channels, hear) {
      sender.on('message', (channel: string, message: string) => channels.includes(channel) && hear(message));
      return sender.subscribe(...channels);
    },
    cork: () => sender.stream?.cork(),
    uncork: () => sender.stream?.uncork(),
    destroy() {
      sender.disconnect();
      sender.stream?.destroy();
    },
  };
}

/**
 * The options of a client of one connection: what no URL, option or copied client may change comes last.
 *
 * ioredis must send no command of its own between the connecting of a socket and `ready`, as it does with CLIENT SETNAME for
 * `connectionName`, and with CLIENT SETINFO without `disableClientInfo`. ioredis 5.8 to 5.11 waits for the answers to both, and takes
 * the end of the connection for an answer.
 */
function optionsFor(given: ServerOptions, { address, login }: ClientSpec): RedisOptions {
  const options = given as RedisOptions;
  return {
    ...options,
    ...address,
    ...login,
    keyPrefix: '',
    // The application's own commands are dropped, because they may have names of commands that are used here.
    scripts: undefined,
    stringNumbers: false,
    // The replies have the same shapes in all versions, and the news of a flush are a message of a channel.
    protocol: 2,
    replyMapping: 'legacy',
    enableAutoPipelining: false,
    readOnly: false,
    monitor: false,
    lazyConnect: true,
    connectionName: undefined,
    disableClientInfo: true,
    // A command fails at once when its connection ends, and the core asks again. Nothing is kept and sent later.
    enableOfflineQueue: false,
    enableReadyCheck: false,
    commandTimeout: undefined,
    socketTimeout: undefined,
    // A limit of the client counts while this process is busy too; the connection has its own.
    connectTimeout: 0,
    // Version 5 leaves this to the system, which probes an idle connection after two hours: what is between may have dropped it long before.
    keepAlive: options.keepAlive || 30_000,
    // A connection that ends is destroyed at once, and a timer that waits for it would keep the process alive.
    disconnectTimeout: 0,
    sentinels: undefined,
    retryStrategy: null,
    reconnectOnError: null,
  };
}

/**
 * A client of a subclass may ask for its login in `connect`, and its copies are of the class of ioredis. So that method is called for a
 * stand-in, which has the options of the copy and seems to be connecting already: then ioredis refuses to connect it.
 */
async function askedByConnect(given: Redis, options: RedisOptions): Promise<void> {
  const standIn = Object.create(given, { options: { value: options }, status: { value: 'connecting', writable: true } }) as Redis;
  await given.connect.call(standIn).catch((error: unknown) => {
    if (!/already connecting/.test(messageOf(error))) throw error;
  });
}

/** True if this is a client of ioredis, perhaps of another copy of the package. Clients of other packages have no defineCommand. */
export function isIoredis(target: unknown): target is Redis | Cluster {
  return typeof target === 'object' && target !== null && 'duplicate' in target && 'defineCommand' in target && typeof target.defineCommand === 'function';
}

function isCluster(client: Redis | Cluster): client is Cluster {
  return 'isCluster' in client && client.isCluster === true;
}
