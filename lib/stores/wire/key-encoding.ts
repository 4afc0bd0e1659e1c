/**
 * How the key of a lock stands in a Redis key. What could choose a slot (braces), break a line or steer a terminal (control
 * characters) is written as `%XX` for each of its bytes in UTF-8, and so is `%`, so that each text is read back as what it was
 * made from. A key without any of them stands as it is.
 */
const ENCODED = /[%{}\u0000-\u001f\u007f-\u009f]/;
const EVERY_ENCODED = new RegExp(ENCODED, 'g');
/** What {@link encodeKey} writes, and nothing else: other text that looks like an escape is not ours. */
const EVERY_ESCAPE = /%(?:25|7B|7D|7F|[01][0-9A-F]|C2%[89][0-9A-F])/g;

export function encodeKey(key: string): string {
  return ENCODED.test(key) ? key.replace(EVERY_ENCODED, escapeOf) : key;
}

/** The key that was encoded. Text that is no encoded key comes back as something that encodes differently. */
export function decodeKey(text: string): string {
  return text.includes('%') ? text.replace(EVERY_ESCAPE, decodeURIComponent) : text;
}

function escapeOf(char: string): string {
  return Array.from(Buffer.from(char), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
}
