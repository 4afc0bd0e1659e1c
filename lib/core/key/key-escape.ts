/**
 * Escapes in keys: `%XX` for each byte of what a key must not hold. Their characters are `%` and hex digits only, so
 * every other character can mark where a value ends.
 */
import { UnfitForKey } from './key-value.js';

/** Half a pair means nothing in UTF-8: two different texts would become one key. */
export const LONE_SURROGATE = /\p{Cs}/u;
const HEX_OR_PERCENT = /^[0-9A-Fa-f%]*$/;
const UNSAFE_IN_KEY = /[{}\u0000-\u001f\u007f-\u009f]/gu;

/**
 * The character of a separator that values must not hold; values never hold ':' anyhow. None, when the separator is
 * made of the characters of an escape: it could not be told from a part of a value.
 */
export function guardOf(separator: string): string | undefined {
  const candidates = [...escapeUnsafe(separator)].filter((char) => !HEX_OR_PERCENT.test(char));
  if (candidates.includes(':')) return ':';
  // Escaped letters make keys hard to read, so a letter is the last choice.
  return candidates.find((char) => !/[\p{L}\p{N}]/u.test(char)) ?? candidates[0];
}

/** Escapes what would make values ambiguous, or unsafe, between these guards. */
export function valueEscaper(guards: readonly string[]): (text: string) => string {
  const special = new Set(['%', ':', '{', '}', ...guards]);
  const set = [...special].map((char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`).join('');
  const first = new RegExp(`[${set}\\u{0}-\\u{1f}\\u{7f}-\\u{9f}]|\\p{Cs}`, 'u');
  const every = new RegExp(first.source, 'gu');
  return (text) => {
    if (!first.test(text)) return text;
    if (LONE_SURROGATE.test(text)) throw new UnfitForKey('holds half a surrogate pair');
    return text.replace(every, percent);
  };
}

/** `%XX` of each byte in UTF-8. */
function percent(char: string): string {
  return Array.from(Buffer.from(char), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
}

/** Escapes what is safe in no key: what could choose a slot, or break a line. */
export function escapeUnsafe(text: string): string {
  return text.replace(UNSAFE_IN_KEY, percent);
}
