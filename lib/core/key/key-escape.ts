/**
 * Escapes the values of a key that has several, so that two different lists of values never make the same key. One character of
 * each separator is its guard. No escaped value contains a guard, so the end of each value can be found in the key:
 *
 *   - a guard inside a value is written as `%XX` for each of its bytes;
 *   - a `%` inside a value is written as `%25`, but only where it would be read as the beginning of such an escape, or of one
 *     that was already written with `%25`. So each escaped text stands for one value.
 *
 * Nothing else is escaped: most values stand in the key as one would write them by hand.
 */
import { LONE_SURROGATE } from '../port/option-values.js';
import { UnfitForKey } from './key-value.js';

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

/** Makes the function that escapes the guards in a value. Without guards it returns every value as it is. */
export function valueEscaper(guards: readonly string[]): (text: string) => string {
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
