/**
 * What stays the same in all keys of one template: the texts before, between and after its values. Templates of decorators and
 * of routes and the tag `lockKey` share it, so that they make the same string of the same values.
 */
import { LONE_SURROGATE } from './check-key.js';
import { guardOf, valueEscaper } from './key-escape.js';
import { keyText } from './key-value.js';

/** Refuses the template; its argument completes the sentence "the key template … is malformed: …". */
export type Malformed = (problem: string) => never;

export interface KeyFrame {
  /** Before the first value. */
  readonly head: string;
  /** What follows each value. */
  readonly tails: readonly string[];
  /** How a value stands in the key: as it is, unless there are several (see key-escape.ts). @throws UnfitForKey */
  valueText(value: unknown): string;
}

/** `literals` are one more than there are values. @throws what `malformed` throws */
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
