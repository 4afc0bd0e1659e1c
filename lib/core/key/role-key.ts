/** The lock of a role: whoever holds it leads. Its key says so, so that every process, the board and the command line know a role by its lock. */
import { LockKeyError } from '../port/errors.js';
import { show } from '../port/options.js';
import { checkKey } from './check-key.js';

const START = 'leader:';

/** The key of the role's lock. @throws LockKeyError */
export function roleKey(role: string): string {
  if (typeof role === 'string' && role !== '') return checkKey(`${START}${role}`);
  throw new LockKeyError(`Role: expected a text that is not empty, such as 'indexer', got ${show(role)}.`);
}

/** The role whose lock this is; undefined for every other lock. */
export function roleOf(key: string): string | undefined {
  return key.length > START.length && key.startsWith(START) ? key.slice(START.length) : undefined;
}
