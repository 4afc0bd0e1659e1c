/** How long a request that a Redlock refused waits before it asks again, and how long a node waits for a request that it calls. */

/** The longest pause in ms of a request that has just begun to wait, and of one that has waited for a second. */
const PAUSE_AT_FIRST_MS = 400;
const SHRUNK_PAUSE_MS = 100;
/** By how many ms the longest pause becomes shorter for each ms that a request has waited, until it is SHRUNK_PAUSE_MS. */
const SHRINKS_BY = 0.3;
/** A request that has waited for so many ms pauses longer again: by so many ms more for each further ms. */
const GROWS_AFTER_MS = 3_000;
const GROWS_BY = 0.2;
const SLOWNESS_FACTOR = 4;
/** The longest pause in ms, however slow the nodes are: a message that should end it may be lost. */
const MAX_PAUSE_MS = 800;
/** The least pause in ms of a request that waits for the end of a lease, for a lease that has just ended. */
const MIN_PAUSE_AT_LEASE_END_MS = 20;
/** The shortest time in ms for which a lock is kept: a garbage collection may delay the process that is called. */
const MIN_PATIENCE_MS = 150;
const MAX_PATIENCE_MS = 500;

/**
 * How long a refused request waits before it asks again, unless a message calls it earlier. The pause is random, so that two requests
 * that split the votes do not split them again. It is shorter for a request that has waited longer, and longer where the nodes take
 * long to answer, so that a crowd of waiters does not overload them. A request that has waited for seconds asks seldom, because its
 * mark on the nodes keeps its turn, and a message calls it: candidates wait for days.
 *
 * @param tookMs how long the nodes took to refuse it
 * @param leftMs in how many ms the present lease ends, as far as the nodes know; Infinity when it is the turn of another request
 */
export function retryPause(waitedMs: number, tookMs: number, leftMs: number, random = Math.random()): number {
  const grown = Math.min(MAX_PAUSE_MS, GROWS_BY * (waitedMs - GROWS_AFTER_MS));
  const longest = Math.max(SHRUNK_PAUSE_MS, PAUSE_AT_FIRST_MS - SHRINKS_BY * waitedMs, grown);
  const pause = (longest * (1 + random)) / 2 + SLOWNESS_FACTOR * tookMs;
  return Math.min(pause, MAX_PAUSE_MS, Math.max(MIN_PAUSE_AT_LEASE_END_MS * (0.5 + random / 2), leftMs));
}

/** How long a node should keep a free lock for a request, in ms: time for the node's message and the process's request. */
export function patienceMs(tookMs: number): number {
  return Math.min(MAX_PATIENCE_MS, Math.ceil(MIN_PATIENCE_MS + SLOWNESS_FACTOR * tookMs));
}
