/**
 * Makes the keys of decorated calls. The decorator's key is a template, a function of the arguments, or an array of either; it is
 * compiled once, when the class is defined.
 */
import { LockKeyError } from '../port/errors.js';
import { LONE_SURROGATE, show } from '../port/options.js';
import { parseKeyTemplate } from './key-template.js';

/** A function that makes the key, or the keys, of a call from its arguments. Its `this`, if it is no arrow function, is the object of the call. */
export type KeyFunction = (...args: never[]) => string | readonly string[];

/** The key of a decorator: a template, a function of the arguments, or an array of either. */
export type CallKey = string | KeyFunction | readonly (string | KeyFunction)[];

/** Renders the key of a call, or its keys, from its arguments; `self` is the object whose method is called. @throws LockKeyError */
export type KeyOfCall = (args: readonly unknown[], self?: unknown) => string | readonly string[];

/**
 * Finds in a key that a function made the text of a missing value, as in `order:undefined`, or of an object without an id. Such a
 * word counts between separators (`:`, `/`, `|`, `,`) and at the end, as in `order-undefined`. Elsewhere it may be data, as in
 * `undefined-behavior`. The word `null` may be data everywhere: a name, for example, which a template takes as well.
 */
const FORGOTTEN_VALUE = /(?:^|[:/|,])(?:undefined|NaN)(?:$|[:/|,])|[._-](?:undefined|NaN)$|\[object \w+\]/;

/** Compiles the key of a decorator. `site` is the class and method that messages name. @throws LockKeyError */
export function compileCallKey(key: CallKey, site: string): KeyOfCall {
  if (!Array.isArray(key)) return compileOne(key, site);
  if (key.length === 0) throw new LockKeyError(`${site}: a lock needs at least one key, got an empty array.`);
  const parts = key.map((part: unknown) => compileOne(part, site));
  return (args, self) => parts.flatMap((part) => part(args, self));
}

function compileOne(key: unknown, site: string): KeyOfCall {
  if (typeof key === 'function') return (args, self) => functionKey(Reflect.apply(key, self, args), site);
  if (typeof key !== 'string') {
    throw new LockKeyError(`${site}: expected a key template or a function that makes a key, got ${typeof key}.`);
  }
  return parseKeyTemplate(key, site).render;
}

function functionKey(made: unknown, site: string): string | readonly string[] {
  if (Array.isArray(made)) {
    if (made.length === 0) throw new LockKeyError(`${site}: its key function must name at least one lock, got [].`);
    return made.map((key: unknown) => checkedKey(key, site));
  }
  return checkedKey(made, site);
}

function checkedKey(made: unknown, site: string): string {
  if (typeof made !== 'string') {
    const got = made instanceof Promise ? 'a promise (a key function cannot be async)' : typeof made;
    throw new LockKeyError(`${site}: its key function must return a string, got ${got}.`);
  }
  if (FORGOTTEN_VALUE.test(made)) {
    throw new LockKeyError(`${site}: its key function made '${made}', from a value that is missing or is no id.`, { key: made });
  }
  return checkKey(made, `${site}: its key function made no valid key`);
}

/** The keys without duplicates, sorted by bytes: all callers take locks in the same order, so they cannot deadlock. @throws LockKeyError */
export function keysInOrder(keys: readonly string[]): string[] {
  if (!Array.isArray(keys)) throw new LockKeyError(`Lock key: expected a key or a list of keys, got ${show(keys)}. Is an argument missing?`);
  const different = new Set(keys.map((key) => checkKey(key)));
  if (different.size === 0) throw new LockKeyError('Lock key: a list of keys must name at least one lock, got [].');
  return [...different].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

// Checks keys that a caller gives whole, to withLock for example. Such a key is never changed: a store that cannot use every
// character in its own names must escape them itself.

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
  if (key.length * 3 > LONGEST_KEY_BYTES) checkLength(key, site);
  if ((key.includes('undefined') || key.includes('[object ')) && FORGOTTEN_PART.test(key)) {
    throw new LockKeyError(`${site}: the key '${key}' was made of a value that is missing or is no id. Correct what made it.`, { key });
  }
  return key;
}

/** Messages start with `site`. @throws LockKeyError when the key is longer than {@link LONGEST_KEY_BYTES} */
export function checkLength(key: string, site: string): void {
  const bytes = Buffer.byteLength(key);
  if (bytes <= LONGEST_KEY_BYTES) return;
  const start = `${site}: the key '${key.slice(0, 40)}…' has ${bytes} bytes`;
  throw new LockKeyError(`${start}, more than the ${LONGEST_KEY_BYTES} allowed. Lock an id, or a hash of the value.`, { key });
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
