/**
 * What is wrong with the value of one option, as the end of a sentence that says what was expected and what was given; undefined when
 * the value can be meant, or when none was given. What throws the sentence puts in front whose option it is.
 */
import { LockUsageError } from './errors.js';

/** Half of a surrogate pair. UTF-8 cannot encode it, so two different texts would become one key, or one owner. */
export const LONE_SURROGATE = /\p{Cs}/u;

export function integerProblem(name: string, value: unknown, least: number, most: number, hint?: string): string | undefined {
  if (value === undefined || (Number.isInteger(value) && Number(value) >= least && Number(value) <= most)) return undefined;
  const range = most === Infinity ? `from ${least}` : `from ${least} to ${most}`;
  return `expected ${name} to be a whole number ${range}, got ${show(value)}${hint ? ` (${hint})` : ''}`;
}

export function booleanProblem(name: string, value: unknown): string | undefined {
  return value === undefined || typeof value === 'boolean' ? undefined : `expected ${name} to be true or false, got ${show(value)}`;
}

export function oneOfProblem(name: string, value: unknown, allowed: readonly string[]): string | undefined {
  if (value === undefined || allowed.includes(value as string)) return undefined;
  return `expected ${name} to be ${allowed.map((word) => `'${word}'`).join(' or ')}, got ${show(value)}`;
}

/** Whether this can be the signal of a call: an AbortSignal, or one of another library that can be asked and listened to as one. */
export function isSignal(given: unknown): given is AbortSignal {
  try {
    const { aborted, addEventListener } = given as Partial<AbortSignal>;
    return typeof aborted === 'boolean' && typeof addEventListener === 'function';
  } catch {
    return false;
  }
}

/** The error about an option. It begins with `of`: by default the lock whose key is given. */
export function invalidOption(problem: string, key?: string, of = key === undefined ? 'Lock options' : `Lock '${key}'`): LockUsageError {
  return new LockUsageError(`${of}: ${problem}.`, { key });
}

/**
 * How a value that a caller gave stands in a message. Objects are not written out: one without a prototype has no text, as in GraphQL. A URL
 * is not repeated, because a variable that was mixed up with another one may have put the password of the server there.
 */
export function show(value: unknown): string {
  if (typeof value === 'string') return value.includes('://') ? 'a URL' : `'${value}'`;
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'object' && value !== null) return isArray(value) ? 'an array' : 'an object';
  return String(value);
}

/** A Proxy that was revoked throws when it is asked. */
function isArray(value: object): boolean {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}
