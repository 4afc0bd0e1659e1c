/**
 * Turns what ioredis rejects with into the one error of a store: which node, what it said, about which lock, and whether
 * asking again can help.
 */
import { LockStoreError } from '../../core/port/errors.js';

/** Replies that only an operator can mend. */
const FOR_THE_OPERATOR = /\b(MISCONF|NOREPLICAS|NOPERM|NOAUTH|WRONGPASS|WRONGTYPE|DENIED|can't run this command|ERR unknown command|ERR AUTH)\b/;

const NOT_CONNECTED = 'not connected';

/** Says what was being done, to which lock, on which node. */
export interface Attempt {
  readonly what: string;
  readonly key: string | undefined;
  readonly node: string;
}

/** `complaint` is what the connection said last, which tells more than that there is none. */
export function storeFailure(error: unknown, { what, key, node }: Attempt, complaint?: Error): LockStoreError {
  if (error instanceof LockStoreError) return error;
  const reason = reasonWith(error, complaint);
  const retryable = !FOR_THE_OPERATOR.test(reason);
  const next = retryable ? 'The outcome is not known; it is safe to try again.' : 'Trying again will not help until the server is mended.';
  const subject = key === undefined ? 'Locks' : `Lock '${key}'`;
  const message = `${subject}: ${what} failed on ${node}: ${reason}. ${next}`;
  return new LockStoreError(message, { key, cause: error, nodes: [{ node, reason }], retryable });
}

/** That there is no connection says less than what the connection said last. */
export function reasonWith(error: unknown, complaint: Error | undefined): string {
  const known = reasonOf(error);
  return known === NOT_CONNECTED && complaint !== undefined ? `${known} (${reasonOf(complaint)})` : known;
}

export function reasonOf(error: unknown): string {
  const message = String((error as { message?: unknown } | undefined)?.message ?? error).replace(/\.$/, '');
  // What ioredis says when it has no connection names its own options, which nobody here has set.
  return /writeable and enableOfflineQueue|isn't ready and enableOfflineQueue|Connection is closed|retries per request/.test(message)
    ? NOT_CONNECTED
    : message;
}

/**
 * The slot is being moved: several keys at once cannot be served, one can. ioredis tries such a command on other nodes
 * too, and what it reports in the end may be one of their answers.
 */
export function isTryAgain(error: unknown): boolean {
  const reason = reasonOf(error);
  return /\bTRYAGAIN\b|Too many Cluster redirections/.test(reason) && !/\bCLUSTERDOWN\b/.test(reason);
}

export function isNoScript(error: unknown): boolean {
  return /^NOSCRIPT\b/.test(reasonOf(error));
}
