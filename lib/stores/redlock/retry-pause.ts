/**
 * How long a refused request of a Redlock waits before it asks again, unless a message calls it earlier. Pure.
 *
 * The pause is random, so that two requests that split the votes do not split them again. It is shorter for a request that has
 * waited longer, and longer where the nodes take long to answer, so that a crowd of waiters does not overload them. A request that has
 * waited for seconds asks seldom, because its mark on the nodes keeps its turn, and a message calls it: candidates wait for days.
 */
const LONGEST_MS = 400;
const SHORTEST_MS = 100;
/** The pause shrinks from the longest to the shortest during the first second of waiting. */
const SHRINKS_BY = 0.3;
/** From then on, in ms of waiting, the pause grows again, by so much for each ms. */
const GROWS_AFTER_MS = 3_000;
const GROWS_BY = 0.2;
const SLOWNESS_FACTOR = 4;
/** The longest pause in ms, however slow the nodes are: a message that should end it may be lost. */
const LONGEST_OF_ALL_MS = 800;
/** The shortest time in ms for which a lock is kept: a garbage collection may delay the process that is called. */
const LEAST_PATIENCE_MS = 150;
const LONGEST_PATIENCE_MS = 500;
/** The least pause in ms of a request that waits for the end of a lease, for a lease that has just ended. */
const LEAST_MS = 20;

export interface Refusal {
  readonly waitedMs: number;
  /** How long the nodes took to refuse the request, in ms. */
  readonly tookMs: number;
  /** In how many ms the present lease ends, as far as the nodes know; Infinity when it is another process's turn. */
  readonly leftMs: number;
}

/** @param random from 0 to 1 */
export function retryPause({ waitedMs, tookMs, leftMs }: Refusal, random: number): number {
  const grown = Math.min(LONGEST_OF_ALL_MS, GROWS_BY * (waitedMs - GROWS_AFTER_MS));
  const longest = Math.max(SHORTEST_MS, LONGEST_MS - SHRINKS_BY * waitedMs, grown);
  const pause = (longest * (1 + random)) / 2 + SLOWNESS_FACTOR * tookMs;
  return Math.min(pause, LONGEST_OF_ALL_MS, Math.max(LEAST_MS * (0.5 + random / 2), leftMs));
}

/** How long a node should keep a free lock for a process, in ms: time for the node's message and the process's request. */
export function patienceMs(tookMs: number): number {
  return Math.min(LONGEST_PATIENCE_MS, Math.ceil(LEAST_PATIENCE_MS + SLOWNESS_FACTOR * tookMs));
}
