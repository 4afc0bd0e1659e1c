/**
 * How long who was refused waits before asking again, unless a message calls it before. Pure.
 *
 * The pause is random, so that two who split the votes do not split them again; shorter for who has waited longer; and longer
 * where the nodes take long to answer, so that a crowd does not ask them to death.
 */
const LONGEST_MS = 400;
const SHORTEST_MS = 100;
/** From the longest to the shortest within the first second. */
const SHRINKS_BY = 0.3;
const SLOWNESS_FACTOR = 4;
/** No waiter relies on a message for longer, however slow the nodes are. */
const LONGEST_OF_ALL_MS = 800;
/** A process may have to collect its garbage before it hears that its turn has come. */
const LEAST_PATIENCE_MS = 150;
const MOST_PATIENCE_MS = 500;
/** Who waits for the end of a lease asks then, but not at once when it is over already. */
const LEAST_MS = 20;

export interface Refusal {
  readonly waitedMs: number;
  /** How long the nodes took to refuse it. */
  readonly tookMs: number;
  /** When the present hold ends, as far as the nodes know. */
  readonly leftMs: number;
}

/** @param random from 0 to 1 */
export function retryPause({ waitedMs, tookMs, leftMs }: Refusal, random: number): number {
  const longest = Math.max(SHORTEST_MS, LONGEST_MS - SHRINKS_BY * waitedMs);
  const pause = (longest * (1 + random)) / 2 + SLOWNESS_FACTOR * tookMs;
  return Math.min(pause, LONGEST_OF_ALL_MS, Math.max(LEAST_MS * (0.5 + random / 2), leftMs));
}

/** How long a node should keep a free lock for a process that takes so long to ask: time for its message and the answer. */
export function patienceMs(tookMs: number): number {
  return Math.min(MOST_PATIENCE_MS, Math.ceil(LEAST_PATIENCE_MS + SLOWNESS_FACTOR * tookMs));
}
