/** Where locks stand in Redis. A lock is looked up for its acquire, and again for its release, mostly a moment later. */
import type { RedisKeys } from '../wire/redis-keys.js';

/** Where a lock stands: its slot group, what may share a command with it, and the Redis keys that its scripts need. */
export interface LockSpot {
  readonly key: string;
  readonly group: number;
  /** Locks of one source are on one server, whose clock answers for them. */
  readonly source: number;
  readonly lockKey: string;
  readonly queueKey: string;
  readonly fenceKey: string;
}

/** So many are remembered, so that those of the locks that are held just now mostly are. */
const MOST_REMEMBERED = 256;

export class Spots {
  private remembered = new Map<string, LockSpot>();

  constructor(
    private readonly keys: RedisKeys,
    private readonly sourceOf: (group: number) => number,
  ) {}

  of(key: string): LockSpot {
    return this.remembered.get(key) ?? this.found(key);
  }

  private found(key: string): LockSpot {
    const { keys } = this;
    const group = keys.groupOf(key);
    const [lockKey, queueKey, fenceKey] = keys.all(group, key);
    const spot: LockSpot = { key, group, source: this.sourceOf(group), lockKey, queueKey, fenceKey };
    // All go at once: to know which one was not used for the longest time would cost more than to find it again.
    if (this.remembered.size === MOST_REMEMBERED) this.remembered = new Map();
    this.remembered.set(key, spot);
    return spot;
  }
}
