/**
 * Encodes the key of a lock for its Redis keys. Braces, which could choose a slot, and control characters, which could break a line
 * or steer a terminal, are written as `%XX` for each of their bytes in UTF-8. So is `%`, so that each text decodes to the key it was
 * made from. Other characters stay as they are.
 */
import { percent } from '../../core/key/lock-key.js';

const ENCODED = /[%{}\u0000-\u001f\u007f-\u009f]/;
const EVERY_ENCODED = new RegExp(ENCODED, 'g');
/** The escapes that {@link encodeKey} writes. Other text that looks like an escape is not decoded. */
const EVERY_ESCAPE = /%(?:25|7B|7D|7F|[01][0-9A-F]|C2%[89][0-9A-F])/g;

export function encodeKey(key: string): string {
  return ENCODED.test(key) ? key.replace(EVERY_ENCODED, percent) : key;
}

/** The key of an encoded text. For a text that encodeKey cannot have written, it returns a key that encodes to another text. */
export function decodeKey(text: string): string {
  return text.includes('%') ? text.replace(EVERY_ESCAPE, decodeURIComponent) : text;
}
