/**
 * The requests of this process that want locks of a Redlock and wait: since when each waits, when it asks again, and whether its turn
 * has come. A node on which a lock is released calls the process that has waited longest there. When a quorum of nodes has called, the
 * request asks at once. The call is a hint: a request that waits also asks again by itself.
 */

/** What the waiting requests for one lock share. */
interface Line {
  /** By id, in the order in which they came, the local instant at which each did. */
  readonly since: Map<string, number>;
  /** The local instant at which one of them was granted the lock last. */
  servedAt: number;
  /** The nodes that called this process, and the local instant of the last call. */
  readonly called: Set<object>;
  calledAt: number;
}

/** Calls that lie further apart than this, in ms, belong to different turns. */
const SAME_TURN_MS = 500;

export class Waiters {
  /** By the key of the lock. */
  private readonly lines = new Map<string, Line>();

  constructor(private readonly quorum: number) {}

  /**
   * Notes a request that asks, and waits when it is refused. Returns for how long its process has waited for the lock: since the first
   * request came that still waits, or since one was granted the lock. So whoever was served stands behind all others, whatever else it
   * waits for.
   */
  ask(id: string, key: string, now: number): number {
    const line = this.lines.get(key) ?? { since: new Map(), servedAt: -Infinity, called: new Set(), calledAt: -Infinity };
    this.lines.set(key, line);
    if (!line.since.has(id)) line.since.set(id, now);
    const [first] = line.since.values() as Iterable<number> as [number];
    return now - Math.max(first, line.servedAt);
  }

  /** Notes that a request of this process was granted the lock. */
  served(key: string, now: number): void {
    const line = this.lines.get(key);
    if (line !== undefined) line.servedAt = now;
  }

  /** Removes a request that was granted or gave up. True when it waited and no other request of this process waits for its lock. */
  leave(id: string, key: string): boolean {
    const line = this.lines.get(key);
    if (line === undefined || !line.since.delete(id) || line.since.size > 0) return false;
    this.lines.delete(key);
    return true;
  }

  /** A node keeps the lock for this process. Returns the ids of the requests that should ask now. */
  call(key: string, node: object, now: number): readonly string[] {
    const line = this.lines.get(key);
    if (line === undefined) return [];
    if (now - line.calledAt > SAME_TURN_MS) line.called.clear();
    line.calledAt = now;
    line.called.add(node);
    if (line.called.size < this.quorum) return [];
    line.called.clear();
    return [...line.since.keys()];
  }

  clear(): void {
    this.lines.clear();
  }
}

const PAUSE_AT_FIRST_MS = 400;
const SHRUNK_PAUSE_MS = 100;
/** For each ms of the first second of waiting the pause shrinks by so much, from the first of these to the second. */
const SHRINKS_BY = 0.3;
/** From then on, in ms of waiting, the pause grows again, by so much for each ms. */
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

interface Refusal {
  readonly waitedMs: number;
  /** How long the nodes took to refuse the request, in ms. */
  readonly tookMs: number;
  /** In how many ms the present lease ends, as far as the nodes know; Infinity when it is another process's turn. */
  readonly leftMs: number;
}

/**
 * How long a refused request waits before it asks again, unless a message calls it earlier. The pause is random, so that two requests
 * that split the votes do not split them again. It is shorter for a request that has waited longer, and longer where the nodes take
 * long to answer, so that a crowd of waiters does not overload them. A request that has waited for seconds asks seldom, because its
 * mark on the nodes keeps its turn, and a message calls it: candidates wait for days. @param random from 0 to 1
 */
export function retryPause({ waitedMs, tookMs, leftMs }: Refusal, random: number): number {
  const grown = Math.min(MAX_PAUSE_MS, GROWS_BY * (waitedMs - GROWS_AFTER_MS));
  const longest = Math.max(SHRUNK_PAUSE_MS, PAUSE_AT_FIRST_MS - SHRINKS_BY * waitedMs, grown);
  const pause = (longest * (1 + random)) / 2 + SLOWNESS_FACTOR * tookMs;
  return Math.min(pause, MAX_PAUSE_MS, Math.max(MIN_PAUSE_AT_LEASE_END_MS * (0.5 + random / 2), leftMs));
}

/** How long a node should keep a free lock for a process, in ms: time for the node's message and the process's request. */
export function patienceMs(tookMs: number): number {
  return Math.min(MAX_PATIENCE_MS, Math.ceil(MIN_PATIENCE_MS + SLOWNESS_FACTOR * tookMs));
}
