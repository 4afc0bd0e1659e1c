/**
 * The options of the private connections that no URL, option or copied client may change.
 *
 * ioredis must send no command of its own between the connecting of a socket and `ready`, as it does with CLIENT SETNAME for
 * `connectionName`, and with CLIENT SETINFO without `disableClientInfo`. ioredis 5.8 to 5.11 waits for the answers to both, and takes
 * the end of the connection for an answer. A connection that is accepted and closed is `ready` then, on a closed socket; its next
 * attempt to connect is refused ("already connecting/connected"), and it never connects again.
 */
import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import type { Clock } from '../../../core/port/clock.js';
import { connectTimeoutOf, NO_MASTER, reconnectPause } from '../connections.js';

/** What the options of a connection depend on. */
export interface Needs {
  readonly clock: Clock;
  /** How long a command may take, in ms (commandTimeoutMs). */
  readonly timeoutMs: number;
  /** Whether the store was closed, so that no connection is made any more. */
  isClosed(): boolean;
}

export function isCluster(client: Redis | Cluster): client is Cluster {
  return 'isCluster' in client && client.isCluster === true;
}

const NEXT_ROUND_MS = 10;
/** How long a Sentinel may take to answer, in ms. It is short, because a Sentinel has little to do, and others can be asked. */
const SENTINEL_ANSWERS_WITHIN_MS = 500;
/** Within this time, in ms, all answers to commands that were sent together have come. */
const ONE_ERROR_IN_MS = 50;

/** The options that are forced on a connection. Of two timeouts that the user gave (`given`), the shorter one counts. */
export function forcedOptions(given: RedisOptions, needs: Needs): RedisOptions {
  const { clock, timeoutMs } = needs;
  return {
    keyPrefix: '',
    // The application's own commands are dropped, because they may have names of commands that are used here.
    scripts: undefined,
    stringNumbers: false,
    // Of version 6. Its other mapping gives some replies other shapes, and is refused on a connection of the older protocol.
    replyMapping: 'legacy',
    enableAutoPipelining: false,
    readOnly: false,
    role: 'master',
    monitor: false,
    lazyConnect: true,
    connectionName: undefined,
    disableClientInfo: true,
    // A command fails at once when its connection ends (except in a Cluster, below), and the core asks again. Nothing is kept and
    // sent later, when its caller may have given up.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    enableReadyCheck: false,
    commandTimeout: undefined,
    disconnectTimeout: 50,
    connectTimeout: connectTimeoutOf(timeoutMs, given.connectTimeout),
    // Without it a frozen Sentinel would be waited for without end, although others know the new master.
    sentinelCommandTimeout: Math.min(given.sentinelCommandTimeout ?? Infinity, SENTINEL_ANSWERS_WITHIN_MS),
    retryStrategy: (tries: number) => pauseUnlessClosed(needs, tries === 1),
    // ioredis calls this when no Sentinel of its list was left to try, which with a single Sentinel is every other time.
    sentinelRetryStrategy: (round: number) => (round === 1 && !needs.isClosed() ? NEXT_ROUND_MS : pauseUnlessClosed(needs)),
    reconnectOnError: firstOf(NO_MASTER, clock),
  };
}

/** The options that are forced on a Cluster. A node that is silent for `patienceMs` is given up. */
export function forcedClusterOptions(given: ClusterOptions, needs: Needs, patienceMs: number): ClusterOptions {
  const { retryStrategy, sentinelRetryStrategy, enableOfflineQueue, readOnly, ...forNodes } = forcedOptions(given.redisOptions ?? {}, needs);
  return {
    ...given,
    keyPrefix: '',
    scripts: undefined,
    scaleReads: 'master',
    enableAutoPipelining: false,
    enableOfflineQueue: false,
    lazyConnect: true,
    enableReadyCheck: true,
    maxRedirections: 4,
    // ioredis sends a command again after a lost node. It must, for a command whose node is only being connected. One that was sent
    // is sent twice: the scripts allow that, but a release whose first copy arrived is answered 'lost' then.
    retryDelayOnFailover: 100,
    retryDelayOnClusterDown: 100,
    retryDelayOnTryAgain: 10,
    // The slots are not refreshed by a timer, but after a redirection or the loss of a node (connection-guards.ts).
    slotsRefreshInterval: 0,
    clusterRetryStrategy: () => pauseUnlessClosed(needs),
    // A node that reconnects by itself does not tell that it was away, and a server that forgot would be taken for the one before.
    clusterNodeRetryStrategy: undefined,
    redisOptions: { ...given.redisOptions, ...forNodes, socketTimeout: patienceMs },
  };
}

function pauseUnlessClosed(needs: Needs, isFirst = false): number | null {
  return needs.isClosed() ? null : reconnectPause(isFirst);
}

/**
 * Makes a function that is true for the first matching error in {@link ONE_ERROR_IN_MS}. One is enough to leave a server, and ioredis adds
 * a listener to the socket for each, until Node warns of a leak.
 */
function firstOf(pattern: RegExp, clock: Clock): (error: Error) => boolean {
  let enoughUntil = -Infinity;
  return ({ message }) => {
    const now = clock.now();
    if (now < enoughUntil || !pattern.test(message)) return false;
    enoughUntil = now + ONE_ERROR_IN_MS;
    return true;
  };
}
