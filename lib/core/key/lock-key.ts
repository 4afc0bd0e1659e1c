/**
 * What stands in a key: the texts before, between and after its values, which are the same in all keys of one template, and the text of each
 * value. Templates of decorators and of routes and the tag `lockKey` use it, so that all of them make the same key of the same values.
 *
 * A value is an id. Every other value is refused with an error whose message completes the sentence "<0> (argument 0) …" and never contains
 * the value itself, which may be secret.
 *
 * The values of a key that has several are escaped, so that two different lists of values never make the same key. One character of
 * each separator is its guard. No escaped value contains a guard, so the end of each value can be found in the key:
 *
 *   - a guard inside a value is written as `%XX` for each of its bytes;
 *   - a `%` inside a value is written as `%25`, but only where it would be read as the beginning of such an escape, or of one
 *     that was already written with `%25`. So each escaped text stands for one value.
 *
 * Nothing else is escaped: most values stand in the key as one would write them by hand.
 */
import { LockKeyError } from '../port/errors.js';
import { LONE_SURROGATE } from '../port/options.js';
import { checkKey } from './check-key.js';

/** Throws the error that refuses a template. `problem` completes the sentence "the key template … is malformed: …". */
export type Malformed = (problem: string) => never;

interface KeyFrame {
  /** The text before the first value. */
  readonly head: string;
  /** For each value the text that follows it. */
  readonly tails: readonly string[];
  /** The text of a value in the key. If there are several values it is escaped. @throws UnfitForKey */
  valueText(value: unknown): string;
}

/** Makes a frame of the texts around the values: `literals` has one more than there are values. @throws what `malformed` throws */
export function keyFrame(literals: readonly string[], malformed: Malformed): KeyFrame {
  if (literals.some((literal) => LONE_SURROGATE.test(literal))) malformed('it holds half a surrogate pair');
  const [head = '', ...tails] = literals;
  const guards = tails.slice(0, -1).map((separator) => guardBetween(separator, malformed));
  const escapeValue = valueEscaper(guards);
  return { head, tails, valueText: (value) => escapeValue(keyText(value)) };
}

function guardBetween(separator: string, malformed: Malformed): string {
  if (separator === '') return malformed(`two placeholders need a separator between them, such as ':'`);
  return guardOf(separator) ?? malformed(`the separator '${separator}' could be part of a value; use ':'`);
}

const HEX_OR_PERCENT = /^[0-9A-Fa-f%]$/;

/**
 * The guard of a separator: the character that escaped values must not contain. Undefined when the separator consists of hex
 * digits and `%` only, because an escape inside a value could look like it.
 */
function guardOf(separator: string): string | undefined {
  const candidates = [...separator].filter((char) => !HEX_OR_PERCENT.test(char));
  if (candidates.includes(':')) return ':';
  // A letter or a digit is the last choice, because it is frequent in values and its escapes make keys hard to read.
  return candidates.find((char) => !/[\p{L}\p{N}]/u.test(char)) ?? candidates[0];
}

/** Makes the function that escapes the guards in a value. Without guards it returns every value as it is. */
function valueEscaper(guards: readonly string[]): (text: string) => string {
  if (guards.length === 0) return wellFormed;
  const special = [...new Set(guards)];
  const set = special.map((char) => `\\u{${char.codePointAt(0)!.toString(16)}}`).join('');
  const first = new RegExp(`[${set}%]|\\p{Cs}`, 'u');
  const escapes = special.map((char) => percent(char).slice(1)).join('|');
  const every = new RegExp(`[${set}]|%(?=(?:25)*(?:${escapes}))`, 'gu');
  return (text) => (first.test(text) ? wellFormed(text).replace(every, percent) : text);
}

/** Returns the text unchanged. @throws UnfitForKey when it contains half a surrogate pair */
function wellFormed(text: string): string {
  if (LONE_SURROGATE.test(text)) throw new UnfitForKey('holds half a surrogate pair');
  return text;
}

/** The character as `%XX` for each of its bytes in UTF-8. */
export function percent(char: string): string {
  return Array.from(Buffer.from(char), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
}

/** Refuses a value that cannot stand in a key. Its message completes a sentence that begins with the placeholder. */
class UnfitForKey extends Error {}

/** The error of a key that cannot be made, because of what was thrown for one of its values. `start` names the template and the value. */
export function valueError(start: string, thrown: unknown): LockKeyError {
  if (thrown instanceof UnfitForKey) return new LockKeyError(`${start} ${thrown.message}.`);
  return new LockKeyError(`${start} could not be read.`, { cause: thrown });
}

const OBJECT_TEXT = /\[object \w+\]/;

/** The text of a string, number, bigint, boolean or Date, or of an object with a toString of its own. @throws UnfitForKey */
function keyText(value: unknown): string {
  switch (typeof value) {
    case 'string':
      if (value === '') throw new UnfitForKey('is an empty string');
      if (value === 'undefined') throw new UnfitForKey(`is the text 'undefined', which a missing value becomes`);
      if (value.includes('[object ') && OBJECT_TEXT.test(value)) throw new UnfitForKey('is the text of an object without an id');
      return value;
    case 'number':
      if (!Number.isFinite(value)) throw new UnfitForKey(`is ${value}`);
      return String(value);
    case 'bigint':
    case 'boolean':
      return String(value);
    case 'object':
      if (value === null) throw new UnfitForKey('is null');
      return objectText(value);
    case 'undefined':
      throw new UnfitForKey('is undefined');
    default:
      throw new UnfitForKey(`is a ${typeof value}`);
  }
}

function objectText(value: object): string {
  // The type is read from the tag, because instanceof is false for an object of another realm (worker, vm).
  const tag = Object.prototype.toString.call(value).slice(8, -1);
  if (tag === 'Date') return dateText(value);
  if (Array.isArray(value)) throw new UnfitForKey('is an array: name a part of it, or give a function that makes its keys');
  if ('then' in value && typeof value.then === 'function') {
    throw new UnfitForKey('is a promise: await it before the call');
  }
  if (tag === 'Error' || tag === 'RegExp' || ArrayBuffer.isView(value)) {
    throw new UnfitForKey(`is of type ${tag}, which is no id`);
  }
  const text = textOf(value);
  // An object without a toString of its own has the text of Object.prototype.toString, whatever realm it is of.
  if (text === undefined || /^\[object .*\]$/s.test(text)) {
    const object = `is an object (${className(value)}) without an id-like toString`;
    throw new UnfitForKey(`${object}: name a property of it, as in <0.id>`);
  }
  if (text === '') throw new UnfitForKey(`is an object (${className(value)}) whose toString is empty`);
  if (text === 'undefined' || OBJECT_TEXT.test(text)) {
    throw new UnfitForKey(`is an object (${className(value)}) whose toString gives the text of a missing value or of an object without an id`);
  }
  return text;
}

function dateText(value: object): string {
  const time = Number(value);
  if (Number.isNaN(time)) throw new UnfitForKey('is an invalid Date');
  return new Date(time).toISOString();
}

/** The text that the object's toString returns; undefined when it has none, or returns no string. */
function textOf(value: object): string | undefined {
  const { toString } = value;
  if (typeof toString !== 'function') return undefined;
  const text: unknown = Reflect.apply(toString, value, []);
  return typeof text === 'string' ? text : undefined;
}

function className(value: object): string {
  const { constructor } = value;
  return typeof constructor === 'function' && constructor.name !== '' ? constructor.name : 'without a class';
}

// The tag that makes keys outside of decorators. It makes the same key as a template of the same shape from the same values.

/** The frame of each tagged template in the source, kept for as long as its code is. */
const frames = new WeakMap<TemplateStringsArray, KeyFrame>();

/**
 * Makes the key that `@Locked` makes from a template of the same shape: `` lockKey`order:${id}:${line}` `` for
 * `@Locked('order:<0>:<1>')`. With one value that is the string as written. With several values, the characters that separate
 * them are escaped inside the values, so that ('a:b', 'c') and ('a', 'b:c') are different locks.
 * @throws LockKeyError when a value is missing or is no id, or when the key is empty or too long
 */
export function lockKey(texts: TemplateStringsArray, ...values: readonly (string | number | bigint | boolean | object)[]): string {
  if (!Array.isArray(texts)) throw new LockKeyError('lockKey is a tag of a template: write lockKey`order:${id}`, without parentheses.');
  const { head, tails, valueText } = frameOf(texts);
  let key = head;
  tails.forEach((tail, position) => {
    try {
      key += valueText(values[position]) + tail;
    } catch (error) {
      throw valueError(`lockKey: no key can be made of '${shown(texts)}', because \${${position}}`, error);
    }
  });
  return checkKey(key, 'lockKey');
}

function frameOf(texts: TemplateStringsArray): KeyFrame {
  const known = frames.get(texts);
  if (known) return known;
  const malformed = (problem: string): never => {
    throw new LockKeyError(`lockKey: the key template '${shown(texts)}' is malformed: ${problem}.`);
  };
  // JavaScript gives a tag undefined in place of a text that contains an invalid escape, such as `\u{x}`.
  if (texts.some((text) => text === undefined)) malformed('it has an escape that means no character');
  const frame = keyFrame(texts, malformed);
  frames.set(texts, frame);
  return frame;
}

/** The template's source, with the position of each value in its place: `order:${0}:${1}`. */
function shown(texts: TemplateStringsArray): string {
  return texts.raw.reduce((before, text, position) => `${before}\${${position - 1}}${text}`);
}
