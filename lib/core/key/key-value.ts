/**
 * What may stand in a key as a value, and how it is written there.
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
import { LONE_SURROGATE } from '../port/options.js';

/** Refuses a value that cannot stand in a key. Its message completes a sentence that begins with the place of the value. */
export class UnfitForKey extends Error {}

const HEX_OR_PERCENT = /^[0-9A-Fa-f%]$/;

/**
 * The guard of a separator: the character that escaped values must not contain. Undefined when the separator consists of hex
 * digits and `%` only, because an escape inside a value could look like it.
 */
export function guardOf(separator: string): string | undefined {
  const candidates = [...separator].filter((char) => !HEX_OR_PERCENT.test(char));
  if (candidates.includes(':')) return ':';
  // A letter or a digit is the last choice, because it is frequent in values and its escapes make keys hard to read.
  return candidates.find((char) => !/[\p{L}\p{N}]/u.test(char)) ?? candidates[0];
}

/**
 * Makes the function that writes a value as a part of a key, and throws UnfitForKey for one that cannot stand there. It escapes these guards
 * inside the value; when there are none, because the key has a single value, it leaves the text of the value as it is.
 */
export function valueWriter(guards: readonly string[]): (value: unknown) => string {
  if (guards.length === 0) return keyText;
  const special = [...new Set(guards)];
  const set = special.map((char) => `\\u{${char.codePointAt(0)!.toString(16)}}`).join('');
  const first = new RegExp(`[${set}%]`, 'u');
  const escapes = special.map((char) => percent(char).slice(1)).join('|');
  const every = new RegExp(`[${set}]|%(?=(?:25)*(?:${escapes}))`, 'gu');
  return (value) => {
    const text = keyText(value);
    return first.test(text) ? text.replace(every, percent) : text;
  };
}

/** The character as `%XX` for each of its bytes in UTF-8. */
export function percent(char: string): string {
  return Array.from(Buffer.from(char), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
}

const OBJECT_TEXT = /\[object \w+\]/;

/** The text of a string, number, bigint, boolean or Date, or of an object with a toString of its own. @throws UnfitForKey */
function keyText(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return idText(value);
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
  if (tag === 'Date') {
    if (Number.isNaN(Number(value))) throw new UnfitForKey('is an invalid Date');
    return new Date(Number(value)).toISOString();
  }
  if (Array.isArray(value)) throw new UnfitForKey('is an array: name a part of it, or give a function that makes its keys');
  if ('then' in value && typeof value.then === 'function') {
    throw new UnfitForKey('is a promise: await it before the call');
  }
  if (tag === 'Error' || tag === 'RegExp' || ArrayBuffer.isView(value)) {
    throw new UnfitForKey(`is of type ${tag}, which is no id`);
  }
  const { toString } = value;
  const text: unknown = typeof toString === 'function' ? Reflect.apply(toString, value, []) : undefined;
  // An object without a toString of its own has the text of Object.prototype.toString, whatever realm it is of; a document of Mongoose prints its fields.
  if (typeof text !== 'string' || /^\{|^\[object .*\]$/s.test(text)) {
    const object = `is an object (${className(value)}) without an id-like toString`;
    throw new UnfitForKey(`${object}: name a property of it, as in <0.id>`);
  }
  return idText(text, `is an object (${className(value)}) whose toString `);
}

/** `whose` begins the refusal of a text that the value only gave. */
function idText(text: string, whose = ''): string {
  if (text === '') throw new UnfitForKey(`${whose}is an empty string`);
  if (LONE_SURROGATE.test(text)) throw new UnfitForKey(`${whose}holds half a surrogate pair`);
  if (text === 'undefined') throw new UnfitForKey(`${whose}is the text 'undefined', which a missing value becomes`);
  if (OBJECT_TEXT.test(text)) throw new UnfitForKey(`${whose}is the text of an object without an id`);
  return text;
}

function className(value: object): string {
  const { constructor } = value;
  return typeof constructor === 'function' && constructor.name !== '' ? constructor.name : 'without a class';
}
