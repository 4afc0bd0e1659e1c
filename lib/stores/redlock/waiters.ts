/**
 * Who of this process waits for a lock of a Redlock: since when, and whether its turn has come. A node that is free again says
 * so to the process that has waited longest there; when a quorum of nodes said it, the lock can be had, and is asked for at
 * once. That is a hint: who waits also asks again by itself.
 */

/** What the requests of one lock share. */
interface Line {
  readonly ids: Set<string>;
  /** The nodes that called this process, and when the last did. */
  called: Set<object>;
  calledAt: number;
}

interface Waiter {
  readonly key: string;
  readonly since: number;
}

/** Calls that lie further apart belong to different turns. */
const SAME_TURN_MS = 500;

export class Waiters {
  private readonly waiters = new Map<string, Waiter>();
  private readonly lines = new Map<string, Line>();

  constructor(private readonly quorum: number) {}

  get size(): number {
    return this.waiters.size;
  }

  /** It was refused and goes on wanting the lock. */
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

  /** It was granted, or gave up. True when it waited and nobody else of this process waits for its lock. */
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

  /** A node says that it is this process's turn. Returns who should ask now. */
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
