/**
 * The requests of this process that want locks of a Redlock and wait: since when each waits, and whether its turn has come. A node
 * on which a lock is released calls the process that has waited longest there. When a quorum of nodes has called, the request
 * asks at once. The call is a hint: a request that waits also asks again by itself.
 */

/** What the waiting requests for one lock share. */
interface Line {
  /** In the order in which they came. */
  readonly ids: Set<string>;
  /** The local instant at which one of them was granted the lock last. */
  servedAt: number;
  /** The nodes that called this process, and the local instant of the last call. */
  called: Set<object>;
  calledAt: number;
}

interface Waiter {
  readonly key: string;
  readonly since: number;
  /** Whether the request was told that it waits. Before that, a call for it is only noted in `wasCalled`. */
  isTold: boolean;
  /** Whether its process was called before the request was told that it waits. */
  wasCalled: boolean;
}

/** Calls that lie further apart than this, in ms, belong to different turns. */
const SAME_TURN_MS = 500;

export class Waiters {
  private readonly waiters = new Map<string, Waiter>();
  private readonly lines = new Map<string, Line>();

  constructor(private readonly quorum: number) {}

  get size(): number {
    return this.waiters.size;
  }

  /**
   * Notes a request that asks, and waits when it is refused. Returns for how long its process has waited for the lock: since the first
   * request came that still waits, or since one was granted the lock. So whoever was served stands behind all others, whatever else it
   * waits for.
   */
  ask(id: string, key: string, now: number): number {
    const line = this.lines.get(key) ?? { ids: new Set(), servedAt: -Infinity, called: new Set(), calledAt: -Infinity };
    this.lines.set(key, line);
    if (!this.waiters.has(id)) this.waiters.set(id, { key, since: now, isTold: false, wasCalled: false });
    line.ids.add(id);
    const [first = id] = line.ids;
    return now - Math.max(this.waiters.get(first)!.since, line.servedAt);
  }

  /**
   * Notes that the request is told now that it waits. True when its turn has come meanwhile: a node that refuses it may call it before
   * the other nodes have answered.
   */
  told(id: string): boolean {
    const waiter = this.waiters.get(id);
    if (waiter === undefined) return false;
    const { wasCalled } = waiter;
    waiter.isTold = true;
    waiter.wasCalled = false;
    return wasCalled;
  }

  /** Notes that a request of this process was granted the lock. */
  served(key: string, now: number): void {
    const line = this.lines.get(key);
    if (line !== undefined) line.servedAt = now;
  }

  /** Removes a request that was granted or gave up. True when it waited and no other request of this process waits for its lock. */
  leave(id: string): boolean {
    const waiter = this.waiters.get(id);
    if (waiter === undefined) return false;
    this.waiters.delete(id);
    const { ids } = this.lines.get(waiter.key)!;
    ids.delete(id);
    if (ids.size > 0) return false;
    this.lines.delete(waiter.key);
    return true;
  }

  /** Removes a request that failed before it was told that it waits. */
  leaveUnlessTold(id: string): void {
    if (this.waiters.get(id)?.isTold === false) this.leave(id);
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
    return [...line.ids].filter((id) => {
      const waiter = this.waiters.get(id)!;
      if (!waiter.isTold) waiter.wasCalled = true;
      return waiter.isTold;
    });
  }

  clear(): void {
    this.waiters.clear();
    this.lines.clear();
  }
}
