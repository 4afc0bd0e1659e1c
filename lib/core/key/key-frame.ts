/**
 * The frame of a key: the texts before, between and after its values, which are the same in all keys of one template. Templates of
 * decorators and of routes and the tag `lockKey` use it, so that all of them make the same key of the same values.
 */
import { LONE_SURROGATE } from '../port/option-values.js';
import { guardOf, valueEscaper } from './key-escape.js';
import { keyText } from './key-value.js';

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
