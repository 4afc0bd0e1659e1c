/** The tag that makes keys outside of decorators. It makes the same key as a template of the same shape from the same values. */
import { LockKeyError } from '../port/errors.js';
import { checkKey } from './check-key.js';
import { keyFrame, valueError, type KeyFrame } from './key-frame.js';

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
