/**
 * A key that was given whole is the key, as it was written: it is looked at and never changed. What a store must not find in
 * the name under which it keeps a lock is that store's business.
 */
import { LockKeyError } from '../port/errors.js';

/** Longer keys are refused: they cost memory at every holder and are mostly a mistake (a whole document as an id). */
export const LONGEST_KEY_BYTES = 512;
/** Half a pair means nothing in UTF-8: two different texts would become one key. */
export const LONE_SURROGATE = /\p{Cs}/u;

/** A forgotten value as a whole part of a key. In a key that was given whole, also by an operator, more than that may be data. */
const FORGOTTEN_PART = /(?:^|:)undefined(?:$|:)|\[object \w+\]/;

/**
 * Gives the key back unchanged. `place` starts the messages.
 * @throws LockKeyError when it is empty, no string, too long, made of a forgotten value, or holds half a surrogate pair
 */
export function checkKey(key: string, place = ''): string {
  const at = place === '' ? '' : `${place}: `;
  if (typeof key !== 'string') throw new LockKeyError(`${at}expected a key, got ${typeof key}.`);
  if (key === '') throw new LockKeyError(`${at}a key must not be empty.`);
  if (LONE_SURROGATE.test(key)) throw new LockKeyError(`${at}the key holds half a surrogate pair.`);
  checkLength(key, at);
  if ((key.includes('undefined') || key.includes('[object ')) && FORGOTTEN_PART.test(key)) {
    throw new LockKeyError(`${at}the key '${key}' was made of a value that is missing or is no id. Correct what made it.`, { key });
  }
  return key;
}

/** @throws LockKeyError */
export function checkLength(key: string, at: string): void {
  // No character takes more than three bytes a unit, so most keys need not be measured.
  if (key.length * 3 <= LONGEST_KEY_BYTES) return;
  const bytes = Buffer.byteLength(key);
  if (bytes <= LONGEST_KEY_BYTES) return;
  const start = `${at}the key '${key.slice(0, 40)}…' has ${bytes} bytes`;
  throw new LockKeyError(`${start}, more than the ${LONGEST_KEY_BYTES} allowed. Lock an id, or a hash of the value.`);
}
