/** Checks of the value of one option. Each throws a LockUsageError that says what was expected and what was given. */
import { LockUsageError } from './errors.js';

/** Half of a surrogate pair. UTF-8 cannot encode it, so two different texts would become one key, or one owner. */
export const LONE_SURROGATE = /\p{Cs}/u;

export function checkInteger(name: string, value: unknown, least: number, most: number, key?: string, hint?: string): void {
  if (Number.isInteger(value) && (value as number) >= least && (value as number) <= most) return;
  throw invalidOption(`expected ${name} to be a whole number from ${least} to ${most}, got ${show(value)}${hint ? ` (${hint})` : ''}`, key);
}

export function checkBoolean(name: string, value: unknown, key?: string): void {
  if (typeof value !== 'boolean') throw invalidOption(`expected ${name} to be true or false, got ${show(value)}`, key);
}

export function checkOneOf(name: string, value: unknown, allowed: readonly string[], key?: string): void {
  if (!allowed.includes(value as string)) {
    throw invalidOption(`expected ${name} to be ${allowed.map((word) => `'${word}'`).join(' or ')}, got ${show(value)}`, key);
  }
}

export function invalidOption(problem: string, key?: string): LockUsageError {
  return new LockUsageError(key === undefined ? `Lock options: ${problem}.` : `Lock '${key}': ${problem}.`, { key });
}

/** How a value that a caller gave stands in a message. Objects are not written out: one without a prototype has no text, as in GraphQL. */
export function show(value: unknown): string {
  if (typeof value === 'string') return `'${value}'`;
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'an array' : 'an object';
  return String(value);
}
