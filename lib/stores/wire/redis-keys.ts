/**
 * Every Redis key and channel name. All keys of one lock share a hash tag, and with it a Cluster slot: that of one of
 * {@link SLOT_GROUPS} groups, so that fence counters stay few and renewals of several locks fit into one command.
 *
 *     {prefix:b}:l:<key>   the lock          {prefix:b}:q:<key>   its waiters         {prefix:b}:f   the group's last fence
 *     {prefix}:c:<process> messages to a process                  {prefix}:format     the wire format
 *     {prefix}:e           what a node of a Redlock remembers of its own past   {prefix:b}:m:<key>   who waits for a lock there
 *
 * The key of a lock stands in them encoded (key-encoding.ts); the hash is that of the key as its caller wrote it.
 * The hash and the number of groups are part of the wire format: processes that disagree would not exclude each other.
 */
import { LockUsageError } from '../../core/port/errors.js';
import { decodeKey, encodeKey } from './key-encoding.js';

export const SLOT_GROUPS = 256;
/** Goes up with every change of a key, a record or a script that older processes would not understand. */
export const FORMAT_VERSION = 2;

const LONGEST_PREFIX_BYTES = 64;
const FNV_START = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** What holder ids begin with, up to their last dot, is read by scripts. @throws LockUsageError */
export function checkProcess(process: string): void {
  if (!/^[^\s~]\S*$/.test(process)) throw new LockUsageError(`Lock options: expected the process id to be without spaces, got '${process}'.`);
}

export class RedisKeys {
  private readonly heads: readonly string[];
  private readonly fences: readonly string[];
  readonly format: string;
  readonly epoch: string;
  readonly channelPrefix: string;

  /** @throws LockUsageError */
  constructor(readonly prefix: string) {
    checkPrefix(prefix);
    this.heads = Array.from({ length: SLOT_GROUPS }, (_, group) => `{${prefix}:${group}}:`);
    this.fences = this.heads.map((head) => `${head}f`);
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
      hash = Math.imul(hash ^ unit, FNV_PRIME);
    }
    return fold(hash);
  }

  lock(group: number, key: string): string {
    return `${this.heads[group]}l:${encodeKey(key)}`;
  }

  /** Exists only while somebody waits. */
  queue(group: number, key: string): string {
    return `${this.heads[group]}q:${encodeKey(key)}`;
  }

  fence(group: number): string {
    return this.fences[group]!;
  }

  /** On a node of a Redlock: who was refused the lock. Exists only while somebody waits. */
  marks(group: number, key: string): string {
    return `${this.heads[group]}m:${encodeKey(key)}`;
  }

  /** The marks of the lock that stands at this Redis key. */
  marksBeside(lockKey: string): string {
    return lockKey.replace('}:l:', '}:m:');
  }

  /** What a script that may let a waiter in needs, in the order of its KEYS. */
  all(group: number, key: string): [lock: string, queue: string, fence: string] {
    return [this.lock(group, key), this.queue(group, key), this.fence(group)];
  }

  channel(process: string): string {
    return this.channelPrefix + process;
  }

  /**
   * A lock that only a booting process can name: in the Redis key of every other lock two hexadecimal digits follow a `%`.
   * It stands in any group, and is never listed.
   */
  probe(group: number, name: string): [lock: string, queue: string, fence: string] {
    const head = this.heads[group]!;
    return [`${head}l:%probe:${name}`, `${head}q:%probe:${name}`, this.fence(group)];
  }

  /** For SCAN: matches the locks whose keys start with `startsWith`, and perhaps locks of other prefixes. */
  lockPattern(startsWith: string): string {
    return `{${this.prefix}:[0-9]*}:l:${encodeKey(startsWith).replace(/[\\*?[\]]/g, '\\$&')}*`;
  }

  /** The keys of those of our locks among what SCAN found that start with `startsWith`, each once. */
  keysAmong(found: readonly string[], startsWith: string): string[] {
    const keys = new Set(found.map((redisKey) => this.keyOf(redisKey)));
    return [...keys].filter((key) => key !== undefined).filter((key) => key.startsWith(startsWith));
  }

  /** The lock's key, read back from its Redis key; undefined for a Redis key under which this prefix keeps no lock. */
  keyOf(redisKey: string): string | undefined {
    const key = decodeKey(redisKey.slice(redisKey.indexOf('}:l:') + 4));
    return this.lock(this.groupOf(key), key) === redisKey ? key : undefined;
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
  return Math.imul(hash ^ byte, FNV_PRIME);
}

function fold(hash: number): number {
  return (hash ^ (hash >>> 8) ^ (hash >>> 16) ^ (hash >>> 24)) & (SLOT_GROUPS - 1);
}
