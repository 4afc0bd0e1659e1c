/**
 * What this process was told of those who hold the locks for which it waits, or which it was refused. A server that forgot them hears it
 * with the next request for the same lock (stand-in.lua), so that for whoever waited before nothing changes.
 */
interface Told {
  /** As the script said it. */
  readonly holds: string;
  readonly at: number;
}

export class ToldHolds {
  /** How many locks there are: mostly none, and then there is nothing to look up. Only this object writes it. */
  count = 0;
  /** By key, the oldest first. An entry goes when the lock is granted to this process, or when no hold can last so long. */
  private readonly byKey = new Map<string, Told>();

  constructor(private readonly longestMs: number) {}

  /** Notes what an answer says that came at the local instant `at`. */
  note(key: string, holds: string, at: number): void {
    this.byKey.delete(key);
    if (holds !== '-') this.byKey.set(key, { holds, at });
    for (const [old, told] of this.byKey) {
      if (at - told.at <= this.longestMs) break;
      this.byKey.delete(old);
    }
    this.count = this.byKey.size;
  }

  /** What a request for this lock says: how many ms ago this process was told at least, and what. */
  of(key: string, now: number): string | undefined {
    const told = this.byKey.get(key);
    if (told === undefined || now - told.at > this.longestMs) return undefined;
    return `${Math.max(0, Math.floor((now - told.at) * 0.99))},${told.holds}`;
  }

  /** The lock was granted to this process. */
  forget(key: string): void {
    this.byKey.delete(key);
    this.count = this.byKey.size;
  }
}
