/**
 * Checks keys: those that a caller gives whole, to withLock for example, and those that were made for a call. A key is never changed: a
 * store that cannot use every character in its own names must escape them itself. The key of a role's lock is made here too.
 */
import { LockKeyError } from '../port/errors.js';
import { LONE_SURROGATE, show } from '../port/options.js';

/** The longest key in bytes. A longer one costs memory wherever it is stored, and is mostly a mistake: a whole document as an id. */
export const LONGEST_KEY_BYTES = 512;

/** The text of a missing value as a whole part of the key (`order:undefined`), or of an object without an id. Other text may be data. */
const FORGOTTEN_PART = /(?:^|:)undefined(?:$|:)|\[object \w+\]/;

/**
 * Checks `key` and returns it unchanged. Messages start with `site`.
 * @throws LockKeyError when it is no string, empty, too long, made of a missing value, or contains half a surrogate pair
 */
export function checkKey(key: string, site = 'Lock key'): string {
  if (typeof key !== 'string') throw new LockKeyError(`${site}: expected a text such as 'order:7', got ${show(key)}.`);
  if (key === '') throw new LockKeyError(`${site}: a key must not be empty. Name what is locked, such as 'order:7'.`);
  if (LONE_SURROGATE.test(key)) throw new LockKeyError(`${site}: the key holds half a surrogate pair. Correct what cut its text in two.`);
  // A UTF-16 unit takes at most three bytes in UTF-8, so a short key need not be measured.
  const bytes = key.length * 3 > LONGEST_KEY_BYTES ? Buffer.byteLength(key) : 0;
  if (bytes > LONGEST_KEY_BYTES) {
    const start = `${site}: the key '${key.slice(0, 40)}…' has ${bytes} bytes`;
    throw new LockKeyError(`${start}, more than the ${LONGEST_KEY_BYTES} allowed. Lock an id, or a hash of the value.`, { key });
  }
  if ((key.includes('undefined') || key.includes('[object ')) && FORGOTTEN_PART.test(key)) {
    throw new LockKeyError(`${site}: the key '${key}' was made of a value that is missing or is no id. Correct what made it.`, { key });
  }
  return key;
}

/** The keys without duplicates, sorted by bytes: all callers take locks in the same order, so they cannot deadlock. @throws LockKeyError */
export function keysInOrder(keys: readonly string[]): string[] {
  if (!Array.isArray(keys)) throw new LockKeyError(`Lock key: expected a key or a list of keys, got ${show(keys)}. Is an argument missing?`);
  const different = new Set(keys.map((key) => checkKey(key)));
  if (different.size === 0) throw new LockKeyError('Lock key: a list of keys must name at least one lock, got [].');
  return [...different].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

// The lock of a role: whoever holds it leads. Its key says so, so that every process, the board and the command line know a role by its lock.

const START = 'leader:';

/** The key of the role's lock. @throws LockKeyError */
export function roleKey(role: string): string {
  if (typeof role === 'string' && role !== '') return checkKey(`${START}${role}`);
  throw new LockKeyError(`Role: expected a text that is not empty, such as 'indexer', got ${show(role)}.`);
}

/** The role whose lock this is; undefined for every other lock. */
export function roleOf(key: string): string | undefined {
  return key.length > START.length && key.startsWith(START) ? key.slice(START.length) : undefined;
}
