/**
 * The requests of this process that wait for locks of a Redlock: since when each waits, and whether its turn has come. A node
 * on which a lock is released calls the process that has waited longest there. When a quorum of nodes has called, the request
 * asks at once. The call is a hint: a request that waits also asks again by itself.
 */

/** What the waiting requests for one lock share. */
interface Line {
  readonly ids: Set<string>;
  /** The nodes that called this process, and the local instant of the last call. */
  called: Set<object>;
  calledAt: number;
}

interface Waiter {
  readonly key: string;
  readonly since: number;
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

  /** Notes a request that was refused and waits. */
  add(id: string, key: string, since: number): void {
    if (this.waiters.has(id)) return;
    this.waiters.set(id, { key, since });
    const line = this.lines.get(key);
    if (line === undefined) this.lines.set(key, { ids: new Set([id]), called: new Set(), calledAt: -Infinity });
    else line.ids.add(id);
  }

  waitedMs(id: string, now: number): number {
    const waiter = this.waiters.get(id);
    return waiter === undefined ? 0 : now - waiter.since;
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

  /** A node keeps the lock for this process. Returns the ids of the requests that should ask now. */
  call(key: string, node: object, now: number): readonly string[] {
    const line = this.lines.get(key);
    if (line === undefined) return [];
    if (now - line.calledAt > SAME_TURN_MS) line.called.clear();
    line.calledAt = now;
    line.called.add(node);
    if (line.called.size < this.quorum) return [];
    line.called.clear();
    return [...line.ids];
  }

  clear(): void {
    this.waiters.clear();
    this.lines.clear();
  }
}
