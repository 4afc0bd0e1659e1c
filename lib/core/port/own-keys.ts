/** Locks that the library takes for itself, to see whether locks can be had. Nobody is shown them. */

/** Keys of users have no control characters. */
const OURS = '\u0001';

export function ownKey(what: string): string {
  return `${OURS}${what}`;
}

export function isOwnKey(key: string): boolean {
  return key.startsWith(OURS);
}
