/**
 * The options of the private connections: what no URL, option or copied client may change.
 *
 * Nothing of ours may be sent between the connecting of a socket and `ready`, as CLIENT SETNAME is for `connectionName` and
 * CLIENT SETINFO without `disableClientInfo`. From 5.8 to 5.11 ioredis waits for the answers to both, and the end of the
 * connection counts as an answer: a connection that is accepted and closed is `ready` then, on a socket that is gone, so that
 * its next attempt refuses to begin ("already connecting/connected"), and it never connects again.
 */
import type { ClusterOptions, RedisOptions } from 'ioredis';
import type { Clock } from '../../core/port/clock.js';

/** What a connection is made for. */
export interface Needs {
  readonly clock: Clock;
  /** Of a command, in ms. */
  readonly timeoutMs: number;
  /** Nobody wants to be connected any more. */
  isClosed(): boolean;
}

/** For a connection to be made, and for the first answer on it. */
export const CONNECTS_WITHIN_MS = 1_000;
const FIRST_RECONNECT_MS = 40;
const LONGEST_RECONNECT_MS = 150;
const NEXT_ROUND_MS = 10;
/** A Sentinel has nothing else to do than to answer, and there are others. */
const SENTINEL_ANSWERS_WITHIN_MS = 500;
/** Answers to what was sent together arrive within this time. */
const ENOUGH_MS = 50;

/** @param given what the user gave, of which some may only be made stricter */
export function forcedOptions(given: RedisOptions, needs: Needs): RedisOptions {
  const { clock, timeoutMs } = needs;
  return {
    keyPrefix: '',
    // Commands of the application, which may have the names of those that are used here.
    scripts: undefined,
    stringNumbers: false,
    enableAutoPipelining: false,
    readOnly: false,
    role: 'master',
    monitor: false,
    lazyConnect: true,
    connectionName: undefined,
    disableClientInfo: true,
    // An unknown outcome is told at once (but see the Cluster's) and dealt with above; nothing is kept to be sent when nobody
    // wants it any more.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    enableReadyCheck: false,
    commandTimeout: undefined,
    disconnectTimeout: 50,
    connectTimeout: Math.min(Number(given.connectTimeout) || Infinity, Math.max(500, Math.min(timeoutMs, CONNECTS_WITHIN_MS))),
    // One that is frozen would be waited for without end, while others know the new master.
    sentinelCommandTimeout: Math.min(given.sentinelCommandTimeout ?? Infinity, SENTINEL_ANSWERS_WITHIN_MS),
    // Leases are waiting: after a connection that worked the next one is tried almost at once.
    retryStrategy: (tries: number) => (tries === 1 && !needs.isClosed() ? FIRST_RECONNECT_MS * (0.5 + Math.random()) : reconnectDelay(needs)),
    // ioredis calls it when it has come to the end of its list, which with one Sentinel is every other time.
    sentinelRetryStrategy: (round: number) => (round === 1 && !needs.isClosed() ? NEXT_ROUND_MS : reconnectDelay(needs)),
    // A master that became a replica: ask again who is the master. Redis 6 says it inside of an error of the script.
    reconnectOnError: firstOf(/^(READONLY|MASTERDOWN)\b|: -READONLY\b/, clock),
  };
}

/** @param patienceMs a node that is silent for so long is given up */
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
    // Also for what was never sent, because its node is only being connected. What was on its way is sent again as well: the
    // scripts allow that, but a release that had arrived is told 'lost' then.
    retryDelayOnFailover: 100,
    retryDelayOnClusterDown: 100,
    retryDelayOnTryAgain: 10,
    // An idle process asks nothing: a redirection or a lost node (connection-guards.ts) is what tells of a change.
    slotsRefreshInterval: 0,
    clusterRetryStrategy: () => reconnectDelay(needs),
    redisOptions: { ...given.redisOptions, ...forNodes, socketTimeout: patienceMs },
  };
}

function reconnectDelay(needs: Needs): number | null {
  return needs.isClosed() ? null : LONGEST_RECONNECT_MS * (0.5 + 0.5 * Math.random());
}

/**
 * True for the first such error in a while: one is enough to leave a server, and ioredis hangs a listener on the socket for
 * each, until Node complains of a leak.
 */
function firstOf(pattern: RegExp, clock: Clock): (error: Error) => boolean {
  let enoughUntil = -Infinity;
  return ({ message }) => {
    const now = clock.now();
    if (now < enoughUntil || !pattern.test(message)) return false;
    enoughUntil = now + ENOUGH_MS;
    return true;
  };
}
