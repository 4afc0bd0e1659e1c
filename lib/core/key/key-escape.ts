/**
 * Escapes in the values of a key that has several. A character of each separator, its guard, stands in no value, so that the
 * end of each value can be found in the key and two lists of values never make one key:
 *
 *   - a guard inside a value is written as `%XX` for each of its bytes;
 *   - a `%` inside a value is written as `%25` only where it would be read as the beginning of such an escape, or of one
 *     that was written with `%25` already. Each text then stands for one value.
 *
 * Nothing else is escaped: most values stand in the key as one would write them by hand.
 */
import { LONE_SURROGATE } from './check-key.js';
import { UnfitForKey } from './key-value.js';

const HEX_OR_PERCENT = /^[0-9A-Fa-f%]$/;

/**
 * The character of a separator that values must not hold. None, when the separator is made of the characters of an escape:
 * it could not be told from a part of a value.
 */
export function guardOf(separator: string): string | undefined {
  const candidates = [...separator].filter((char) => !HEX_OR_PERCENT.test(char));
  if (candidates.includes(':')) return ':';
  // Escaped letters make keys hard to read, so a letter is the last choice.
  return candidates.find((char) => !/[\p{L}\p{N}]/u.test(char)) ?? candidates[0];
}

/** Writes a value so that it stands between these guards; without guards every value stands as it is. */
export function valueEscaper(guards: readonly string[]): (text: string) => string {
  if (guards.length === 0) return wellFormed;
  const special = [...new Set(guards)];
  const set = special.map((char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`).join('');
  const first = new RegExp(`[${set}%]|\\p{Cs}`, 'u');
  const escapes = special.map((char) => percent(char).slice(1)).join('|');
  const every = new RegExp(`[${set}]|%(?=(?:25)*(?:${escapes}))`, 'gu');
  return (text) => (first.test(text) ? wellFormed(text).replace(every, percent) : text);
}

/** @throws UnfitForKey */
function wellFormed(text: string): string {
  if (LONE_SURROGATE.test(text)) throw new UnfitForKey('holds half a surrogate pair');
  return text;
}

/** `%XX` of each byte in UTF-8. */
function percent(char: string): string {
  return Array.from(Buffer.from(char), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
}
