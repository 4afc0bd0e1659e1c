/** Where locks stand in Redis. A lock is looked up for its acquire and again for its release, which mostly follows in a moment. */
import type { LockSpot, RedisKeys } from '../wire/redis-keys.js';

export interface Spot extends LockSpot {
  /** Locks of one source are on one server, so that they can share a command, and its clock counts for all of them. */
  readonly source: number;
}

/** How many spots are remembered: enough for the locks that most processes hold at one time. */
const MAX_REMEMBERED = 256;

export class Spots {
  private remembered = new Map<string, Spot>();

  constructor(
    private readonly keys: RedisKeys,
    private readonly sourceOf: (group: number) => number,
  ) {}

  of(key: string): Spot {
    return this.remembered.get(key) ?? this.found(key);
  }

  private found(key: string): Spot {
    const found = this.keys.spotOf(key);
    const spot: Spot = { ...found, source: this.sourceOf(found.group) };
    // All are forgotten at once, because to keep them in the order of their use would cost more than to find them again.
    if (this.remembered.size === MAX_REMEMBERED) this.remembered = new Map();
    this.remembered.set(key, spot);
    return spot;
  }
}
