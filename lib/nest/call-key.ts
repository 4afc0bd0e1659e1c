/**
 * Makes the keys of decorated calls. The decorator's key is a template, a function of the arguments, or an array of either; it is
 * compiled once, when the class is defined.
 */
import { LockKeyError } from '../core/port/errors.js';
import { checkKey } from '../core/key/check-key.js';
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
  return parseKeyTemplate(key, site);
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
