/**
 * Every Redis key and channel name. All keys of one lock share a hash tag, and with it a Cluster slot: that of one of
 * {@link SLOT_GROUPS} groups, so that fence counters stay few and renewals of several locks fit into one command.
 *
 *     {prefix:b}:l:<key>   the lock          {prefix:b}:q:<key>   its waiters         {prefix:b}:f   the group's last fence
 *     {prefix}:c:<process> messages to a process                  {prefix}:format     the wire format
 *     {prefix}:e           what a node of a Redlock remembers of its own past   {prefix:b}:m:<key>   who waits for a lock there
 *
 * The hash and the number of groups are part of the wire format: processes that disagree would not exclude each other.
 */
import { LockUsageError } from '../../core/port/errors.js';

export const SLOT_GROUPS = 256;
/** Goes up with every change of a key, a record or a script that older processes would not understand. */
export const FORMAT_VERSION = 1;

const LONGEST_PREFIX_BYTES = 64;
const FNV_START = 0x811c9dc5;

/** What holder ids begin with, up to their last dot, is read by scripts. @throws LockUsageError */
export function checkProcess(process: string): void {
  if (!/^[^\s~]\S*$/.test(process)) throw new LockUsageError(`Lock options: expected the process id to be without spaces, got '${process}'.`);
}

export class RedisKeys {
  private readonly heads: readonly string[];
  readonly format: string;
  readonly epoch: string;
  readonly channelPrefix: string;

  /** @throws LockUsageError */
  constructor(readonly prefix: string) {
    checkPrefix(prefix);
    this.heads = Array.from({ length: SLOT_GROUPS }, (_, group) => `{${prefix}:${group}}:`);
    this.format = `{${prefix}}:format`;
    this.epoch = `{${prefix}}:e`;
    this.channelPrefix = `{${prefix}}:c:`;
  }

  /** FNV-1a over the key's UTF-8, folded to a byte. */
  groupOf(key: string): number {
    let hash = FNV_START;
    for (let i = 0; i < key.length; i++) {
      const unit = key.charCodeAt(i);
      if (unit > 127) return fold(Buffer.from(key, 'utf8').reduce(hashByte, FNV_START));
      hash = hashByte(hash, unit);
    }
    return fold(hash);
  }

  lock(group: number, key: string): string {
    return `${this.heads[group]}l:${key}`;
  }

  /** Exists only while somebody waits. */
  queue(group: number, key: string): string {
    return `${this.heads[group]}q:${key}`;
  }

  fence(group: number): string {
    return `${this.heads[group]}f`;
  }

  /** On a node of a Redlock: who was refused the lock. Exists only while somebody waits. */
  marks(group: number, key: string): string {
    return `${this.heads[group]}m:${key}`;
  }

  /** What a script that may let a waiter in needs, in the order of its KEYS. */
  all(group: number, key: string): [lock: string, queue: string, fence: string] {
    return [this.lock(group, key), this.queue(group, key), this.fence(group)];
  }

  channel(process: string): string {
    return this.channelPrefix + process;
  }

  /** Matches the locks whose keys start with `startsWith`. */
  lockPattern(startsWith: string): string {
    return `{${this.prefix}:*}:l:${startsWith.replace(/[\\*?[\]]/g, '\\$&')}*`;
  }

  /** The lock's key, read back from its Redis key. */
  keyOf(lockKey: string): string {
    return lockKey.slice(lockKey.indexOf('}:l:') + 4);
  }
}

/**
 * A brace would move keys to other slots; a space or a glob character would mean something else in access rules and in SCAN.
 * @throws LockUsageError
 */
export function checkPrefix(prefix: unknown): void {
  const isText = typeof prefix === 'string' && Buffer.byteLength(prefix) <= LONGEST_PREFIX_BYTES;
  if (isText && /^[^{}\s*?[\]\\\p{Cc}\p{Cs}]+$/u.test(prefix)) return;
  const allowed = `1 to ${LONGEST_PREFIX_BYTES} bytes without braces, spaces, control characters and any of * ? [ ] \\`;
  throw new LockUsageError(`Lock options: expected prefix to be ${allowed}, got '${String(prefix)}'.`);
}

function hashByte(hash: number, byte: number): number {
  return Math.imul(hash ^ byte, 0x01000193);
}

function fold(hash: number): number {
  return (hash ^ (hash >>> 8) ^ (hash >>> 16) ^ (hash >>> 24)) & (SLOT_GROUPS - 1);
}
