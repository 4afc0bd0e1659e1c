/**
 * The frame of a key: the texts before, between and after its values, which are the same in all keys of one template. Templates of
 * decorators and of routes and the tag `lockKey` use it, so that all of them make the same key of the same values.
 */
import { LONE_SURROGATE } from '../port/option-values.js';
import { keyText, UnfitForKey } from './key-value.js';

/** Throws the error that refuses a template. `problem` completes the sentence "the key template … is malformed: …". */
export type Malformed = (problem: string) => never;

export interface KeyFrame {
  /** The text before the first value. */
  readonly head: string;
  /** For each value the text that follows it. */
  readonly tails: readonly string[];
  /** The text of a value in the key. If there are several values it is escaped (see key-escape.ts). @throws UnfitForKey */
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

/**
 * Makes the function that escapes a value, which without guards returns every value as it is. The values of a key that has several are
 * escaped, so that two different lists of values never make the same key. One character of
 * each separator is its guard. No escaped value contains a guard, so the end of each value can be found in the key:
 *
 *   - a guard inside a value is written as `%XX` for each of its bytes;
 *   - a `%` inside a value is written as `%25`, but only where it would be read as the beginning of such an escape, or of one
 *     that was already written with `%25`. So each escaped text stands for one value.
 *
 * Nothing else is escaped: most values stand in the key as one would write them by hand.
 */
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
