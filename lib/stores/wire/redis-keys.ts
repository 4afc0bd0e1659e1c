/**
 * Makes every Redis key and channel name. All Redis keys of one lock have the same hash tag, and so the same Cluster slot. The tag is
 * that of one of {@link SLOT_GROUPS} groups, so that there are few fence counters and one command can renew several locks.
 *
 *     {prefix:b}:l:<key>   the lock          {prefix:b}:q:<key>   its waiters         {prefix:b}:f   the group's last fence
 *     {prefix}:c:<process> messages to a process                  {prefix}:format     the wire format
 *     {prefix:b}:m:<key>   on a Redlock node: marks of who waits for the lock
 *
 * The key of a lock is encoded in them (encodeKey), and b is the hash of the key as its caller wrote it. The hash and the
 * number of groups are part of the wire format: processes that disagree about them would not exclude each other.
 */
import { LockUsageError } from '../../core/port/errors.js';
import { show } from '../../core/port/options.js';
import { percent } from '../../core/key/key-value.js';

export const SLOT_GROUPS = 256;
/** The version of the wire format. It rises with every change of a Redis key, record or script that older processes do not understand. */
export const FORMAT_VERSION = 5;
/** The oldest version that this one runs beside: it reads both, and writes the older one where processes have agreed on that. */
export const OLDEST_VERSION = 5;
/** The record of a longer lease says how long it is (shared/limits.lua). Part of the wire format. */
export const USUAL_LEASE_MS = 60_000;

/** A process that does not know the server's memory (memory.lua) sends this in place of its name. It is as long as such a name. */
export const UNKNOWN_MEMORY = '-'.repeat(30);
/** The recoveryMs of a node of a Redlock: it grants nothing until it was told the fences of other nodes (admit.lua). Part of the wire format. */
export const UNTIL_TOLD_MS = 1_000_000_000_000;
/** The name of a memory begins so when its server does not say who it is. */
export const NO_SERVER = `${'0'.repeat(16)}:`;

/** How many keys a server looks at for one page of a SCAN: all other commands wait meanwhile. */
export const KEYS_PER_SCAN = 500;

/** What `of` gives for each slot group, in their order. */
export function eachGroup<T>(of: (group: number) => T): T[] {
  return Array.from({ length: SLOT_GROUPS }, (_, group) => of(group));
}

const LONGEST_PREFIX_BYTES = 64;
const FNV_START = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** The Redis keys of a lock, for a script that may let a waiter in. */
interface LockKeys {
  readonly lockKey: string;
  readonly queueKey: string;
  readonly fenceKey: string;
}

/** Where a lock stands: its slot group and its Redis keys. */
export interface Spot extends LockKeys {
  readonly key: string;
  /** All of them, in the order in which scripts are given them. */
  readonly redisKeys: readonly string[];
  readonly group: number;
  /**
   * Locks of one shard are on one server, so that they can share a command, and its clock counts for all of them. In a Cluster each slot
   * group is a shard, because it may have another master than the next; else there is one shard.
   */
  readonly shard: number;
}

/** How many spots are remembered: enough for the locks that most processes hold at one time. */
const MAX_REMEMBERED = 256;

export class RedisKeys {
  private readonly heads = eachGroup((group) => `{${this.prefix}:${group}}:`);
  readonly format = `{${this.prefix}}:format`;
  private remembered = new Map<string, Spot>();

  /** `shardOf`: the shard of the locks of a slot group. @throws LockUsageError when the prefix is not valid */
  constructor(
    readonly prefix: string,
    readonly shardOf: (group: number) => number = () => 0,
  ) {
    checkPrefix(prefix);
  }

  /** The slot group of a key: FNV-1a of its UTF-8, folded to a byte. */
  groupOf(key: string): number {
    let hash = FNV_START;
    for (let i = 0; i < key.length; i++) {
      const unit = key.charCodeAt(i);
      if (unit > 127) return fold(Buffer.from(key, 'utf8').reduce(hashByte, FNV_START));
      hash = Math.imul(hash ^ unit, FNV_PRIME);
    }
    return fold(hash);
  }

  /** Where a lock stands. It is looked up for the lock's acquire and again for its release, which mostly follows in a moment. */
  spotOf(key: string): Spot {
    return this.remembered.get(key) ?? this.found(key);
  }

  private found(key: string): Spot {
    const group = this.groupOf(key);
    const head = this.heads[group]!;
    const encoded = encodeKey(key);
    const [lockKey, queueKey, fenceKey] = [`${head}l:${encoded}`, `${head}q:${encoded}`, this.fence(group)];
    const spot = { key, group, shard: this.shardOf(group), lockKey, queueKey, fenceKey, redisKeys: [lockKey, queueKey, fenceKey] };
    // All are forgotten at once, because to keep them in the order of their use would cost more than to find them again.
    if (this.remembered.size === MAX_REMEMBERED) this.remembered = new Map();
    this.remembered.set(key, spot);
    return spot;
  }

  lock(key: string): string {
    return `${this.heads[this.groupOf(key)]}l:${encodeKey(key)}`;
  }

  fence(group: number): string {
    return `${this.heads[group]}f`;
  }

  channel(process: string): string {
    return `{${this.prefix}}:c:${process}`;
  }

  /**
   * The Redis keys of a probe lock, whose name no caller can give: in the Redis key of every other lock two hexadecimal digits
   * follow a `%`. It can be in any group, and is never listed.
   */
  probe(group: number, name: string): LockKeys {
    const head = this.heads[group]!;
    return { lockKey: `${head}l:%probe:${name}`, queueKey: `${head}q:%probe:${name}`, fenceKey: this.fence(group) };
  }

  /** The pattern with which SCAN finds the locks whose keys start with `startsWith`, and perhaps locks of other prefixes. */
  lockPattern(startsWith: string): string {
    return `{${this.prefix}:[0-9]*}:l:${encodeKey(startsWith).replace(/[\\*?[\]]/g, '\\$&')}*`;
  }

  /** The keys of this prefix's locks among the Redis keys that SCAN found, if they start with `startsWith`, each once. */
  keysAmong(found: readonly string[], startsWith: string): string[] {
    const keys = new Set(found.flatMap((redisKey) => this.keyOf(redisKey) ?? []));
    return [...keys].filter((key) => key.startsWith(startsWith));
  }

  /** The key of the lock with this Redis key; undefined for a Redis key that is none of a lock of this prefix. */
  keyOf(redisKey: string): string | undefined {
    const key = decodeKey(redisKey.slice(redisKey.indexOf('}:l:') + 4));
    return this.lock(key) === redisKey ? key : undefined;
  }
}

/**
 * Checks a prefix. A brace in it would move keys to other slots; a space or a glob character would mean something else in access
 * rules and in SCAN, and a URL was meant for another option. @throws LockUsageError
 */
export function checkPrefix(prefix: unknown): void {
  const isText = typeof prefix === 'string' && Buffer.byteLength(prefix) <= LONGEST_PREFIX_BYTES;
  if (isText && !prefix.includes('://') && /^[^{}\s*?[\]\\\p{Cc}\p{Cs}]+$/u.test(prefix)) return;
  const allowed = `1 to ${LONGEST_PREFIX_BYTES} bytes without braces, spaces, control characters, any of * ? [ ] \\, and ://`;
  throw new LockUsageError(`Lock options: expected prefix to be ${allowed}, got ${show(prefix)}.`);
}

function hashByte(hash: number, byte: number): number {
  return Math.imul(hash ^ byte, FNV_PRIME);
}

function fold(hash: number): number {
  return (hash ^ (hash >>> 8) ^ (hash >>> 16) ^ (hash >>> 24)) & (SLOT_GROUPS - 1);
}

const ENCODED = /[%{}\u0000-\u001f\u007f-\u009f]/;
const EVERY_ENCODED = new RegExp(ENCODED, 'g');
/** The escapes that {@link encodeKey} writes. Other text that looks like an escape is not decoded. */
const EVERY_ESCAPE = /%(?:25|7B|7D|7F|[01][0-9A-F]|C2%[89][0-9A-F])/g;

/**
 * Encodes the key of a lock for its Redis keys. Braces, which could choose a slot, and control characters, which could break a line
 * or steer a terminal, are written as `%XX` for each of their bytes in UTF-8. So is `%`, so that each text decodes to the key it was
 * made from. Other characters stay as they are.
 */
export function encodeKey(key: string): string {
  return ENCODED.test(key) ? key.replace(EVERY_ENCODED, percent) : key;
}

/** The key of an encoded text. For a text that encodeKey cannot have written, it returns a key that encodes to another text. */
export function decodeKey(text: string): string {
  return text.includes('%') ? text.replace(EVERY_ESCAPE, decodeURIComponent) : text;
}

/** Names that callers give, such as an owner or a label, that can stand in records and requests as they are. */
const PLAIN = /^(?!-$)[!-$&-~]+$/;

/** Writes a text as one field: without spaces, and `-` for no text. */
export function toField(text: string | undefined): string {
  if (text === undefined || text === '') return '-';
  if (PLAIN.test(text)) return text;
  return text === '-' ? '%2D' : encodeURIComponent(text.replace(/\p{Surrogate}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`));
}

/** Reads what {@link toField} wrote. */
export function fromField(field: string | number | undefined): string | undefined {
  return field === '-' || field === undefined ? undefined : decodeURIComponent(String(field));
}
